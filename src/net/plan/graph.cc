// Layers are added in the order of the prototxt, so a bottom is whatever blob was the latest of its name: Caffe's rule.
// An in-place layer makes a new blob of the same name, whose memory is decided later. Which labels a layer reads is
// found in graph_labels.cc, shapes are worked out in graph_shapes.cc; gradients are marked when all layers are there
// (graph_gradients.cc).
#include "net/plan/graph.h"

#include "base/format.h"
#include "base/words.h"
#include "layers/traits/own_phase.h"
#include "net/plan/held_parameters.h"
#include "proto/net_filter.h"
#include "proto/place.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

std::string GraphLayer::name() const {
  if (piece == kSum) return traits.name() + ".sum";
  return piece == kClasses ? traits.name() + ".classes" : traits.name();
}

bool GraphLayer::propagates(size_t i) const {
  if (!traits.propagates()) return false;
  const bool stated = piece != kSum && i < static_cast<size_t>(param->propagate_down_size());
  return !stated || param->propagate_down(static_cast<int>(i));
}

ChannelUse GraphLayer::channel_use() const {
  if (piece == kProduct) return ChannelUse::kSplitInput;
  if (piece == kLabels) return ChannelUse::kWhole;
  return piece == kSum ? ChannelUse::kSum : traits.channel_use();
}

std::vector<ParamSpec> GraphLayer::Params(const std::vector<Shape>& in) const {
  std::vector<ParamSpec> specs = traits.Params(in);
  if (piece == kProduct) specs.resize(1);
  if (piece == kSum) specs.erase(specs.begin());
  for (int i = 0; i < static_cast<int>(specs.size()) && shared != nullptr; ++i) {
    const SharedParams::Param* const param = shared->Find(traits.name(), first_blob() + i);
    if (param == nullptr) continue;
    if (param->averages) {
      specs[i].average_keeps = param->keeps();
      specs[i].average_share = param->ShareOf(traits.name());
      continue;
    }
    specs[i].lr_mult = param->lr_mult;
    specs[i].decay_mult = param->decay_mult;
  }
  return specs;
}

namespace {

/// Of the first layer that makes `top` and is not in `phase`: that its rules leave it out. Nothing: there is none.
std::string LeftOut(const caffe::NetParameter& net, Phase phase, const std::string& top) {
  const auto makes = [&](const caffe::LayerParameter& layer) {
    const bool has = std::find(layer.top().begin(), layer.top().end(), top) != layer.top().end();
    return has && !LayerIsIn(layer, StateOf(net, phase));
  };
  const auto layer = std::find_if(net.layer().begin(), net.layer().end(), makes);
  if (layer == net.layer().end()) return "";
  const std::vector<std::string> stages(net.state().stage().begin(), net.state().stage().end());
  return Format(
      "; layer \"%s\" makes it, but its include and exclude rules leave it out in phase %s with level %d and %s",
      layer->name().c_str(), phase.name().c_str(), net.state().level(),
      stages.empty() ? "no stage" : ("stages " + Join(stages)).c_str());
}

}  // namespace

StatusOr<std::unique_ptr<NetGraph>> NetGraph::Create(std::shared_ptr<const caffe::NetParameter> net, Phase phase,
                                                     const LayerTypes& types, const GraphCuts& cuts) {
  auto graph = Make(net, phase, types, cuts);
  return graph.ok() ? std::move(graph) : AtLayer(graph.status(), *net, phase);
}

StatusOr<std::unique_ptr<NetGraph>> NetGraph::Make(const std::shared_ptr<const caffe::NetParameter>& net, Phase phase,
                                                   const LayerTypes& types, const GraphCuts& cuts) {
  auto graph = std::make_unique<NetGraph>();
  graph->net_ = net;
  graph->phase_ = phase;
  graph->source_tops_ = SourceTopsOf(*graph->net_, phase, types);
  graph->label_paths_ = LabelPathsOf(*graph->net_, phase, types);
  HeldParameters parameters;
  for (int i = 0; i < graph->net_->layer_size(); ++i) {
    const caffe::LayerParameter* param = &graph->net_->layer(i);
    if (!LayerIsIn(*param, StateOf(*graph->net_, phase))) continue;
    HP_ASSIGN_OR_RETURN(HeldParameters::Holder holder, parameters.HolderOf(*param));
    if (holder.layer != nullptr) {
      param = holder.layer.get();
      graph->own_params_.push_back(std::move(holder.layer));
    }
    HP_ASSIGN_OR_RETURN(const LayerTraits traits, LayerTraits::Create(*param, types));
    if (phase.train()) HP_RETURN_IF_ERROR(CheckTrains(*param));
    if (traits.discards()) {
      HP_RETURN_IF_ERROR(traits.is_parameter() ? graph->AddParameter(*param, &parameters) : graph->Silence(traits));
      continue;
    }
    HP_RETURN_IF_ERROR(graph->AddLayer(i, traits, cuts));
    graph->layers_.back().parameter = holder.parameter;
    if (traits.is_source()) graph->AddLabelValues();
    if (!cuts.by_inputs.empty() && cuts.by_inputs[i]) graph->CutProduct();
    if (!cuts.class_shards.empty() && cuts.class_shards[i] > 0) graph->CutClasses(cuts.class_shards[i]);
    graph->AddWeightedSums(i, traits);
  }
  if (graph->layers_.empty()) {
    return InvalidArgument("net \"%s\" has no layers in phase %s", graph->net_->name().c_str(), phase.name().c_str());
  }
  HP_RETURN_IF_ERROR(parameters.CheckAllRead(phase));
  HP_RETURN_IF_ERROR(CheckSources(*graph->net_, phase, types));
  HP_RETURN_IF_ERROR(graph->FindShared());
  graph->HideSumsOfReadBlobs();
  graph->MarkGradients();
  HP_RETURN_IF_ERROR(graph->CheckTargets());
  HP_RETURN_IF_ERROR(graph->MarkSamples());
  return graph;
}

int NetGraph::AddBlob(const std::string& name, int top, GraphLayer* producer) {
  GraphBlob blob;
  blob.name = name;
  blob.producer = static_cast<int>(layers_.size());
  blob.top_index = top;
  blobs_.push_back(blob);
  producer->tops.push_back(static_cast<int>(blobs_.size()) - 1);
  return producer->tops.back();
}

Status NetGraph::AddLayer(int order, const LayerTraits& traits, const GraphCuts& cuts) {
  GraphLayer entry(traits);
  entry.order = order;
  entry.source = traits.is_source();
  HP_RETURN_IF_ERROR(FindBottoms(cuts.scattered.empty() ? -1 : cuts.scattered[order], cuts, &entry));
  const int index = static_cast<int>(layers_.size());
  for (int bottom : entry.bottoms) blobs_[bottom].consumers.push_back(index);
  HP_RETURN_IF_ERROR(FindLabels(&entry));
  HP_RETURN_IF_ERROR(AddTops(&entry));
  layers_.push_back(std::move(entry));
  if (traits.is_source()) MarkSource(order);
  return OkStatus();
}

// What the tops of the latest layer, a source, are of a sample.
void NetGraph::MarkSource(int order) {
  for (const SourceTop& top : source_tops_) {
    if (top.layer != order) continue;
    GraphBlob& blob = blobs_[layers_.back().tops[top.top]];
    blob.label = top.role == SourceTop::kLabels;
    if (!blob.label) blob.of_sample = 1 + top.other;
  }
}

Status NetGraph::AddParameter(const caffe::LayerParameter& layer, HeldParameters* parameters) {
  if (const int* const latest = Latest(layer.top(0))) {
    return InvalidArgument("layer \"%s\": top \"%s\" is already produced by layer \"%s\"", layer.name().c_str(),
                           layer.top(0).c_str(), layers_[blobs_[*latest].producer].param->name().c_str());
  }
  return parameters->Add(layer);
}

Status NetGraph::Silence(const LayerTraits& traits) {
  for (const std::string& name : traits.param().bottom()) {
    HP_ASSIGN_OR_RETURN(const int blob, Bottom(traits, name));
    blobs_[blob].silenced = true;
  }
  return OkStatus();
}

int* NetGraph::Latest(const std::string& name) {
  const auto found =
      std::find_if(current_.begin(), current_.end(), [&](const auto& entry) { return entry.first == name; });
  return found == current_.end() ? nullptr : &found->second;
}

StatusOr<int> NetGraph::Bottom(const LayerTraits& traits, const std::string& name) {
  const int* const latest = Latest(name);
  if (latest != nullptr) return *latest;
  return InvalidArgument("layer \"%s\": bottom \"%s\" is not produced by any earlier layer%s", traits.name().c_str(),
                         name.c_str(), LeftOut(*net_, phase_, name).c_str());
}

// What comes from outside the group of a layer comes through a scatter.
Status NetGraph::FindBottoms(int group, const GraphCuts& cuts, GraphLayer* entry) {
  for (const std::string& name : entry->param->bottom()) {
    HP_ASSIGN_OR_RETURN(int blob, Bottom(entry->traits, name));
    const bool at_labels = entry->bottoms.size() == entry->traits.label_bottom();
    const bool as_labels = at_labels && (entry->traits.reads_labels() || entry->traits.may_read_labels());
    if (blobs_[blob].label && !as_labels) blob = label_values_.at(blob);
    if (blobs_[blob].top_index == 0 && layers_[blobs_[blob].producer].is_statistic()) {
      return InvalidArgument(
          "layer \"%s\": bottom \"%s\" is a number of a whole batch, of which a micro-batch has a part; expected no "
          "layer to read it but a Silence",
          entry->traits.name().c_str(), name.c_str());
    }
    const bool outside = group >= 0 && cuts.scattered[layers_[blobs_[blob].producer].order] != group;
    if (outside && !blobs_[blob].label) blob = ScatteredInto(group, entry->order, blob);
    entry->bottoms.push_back(blob);
  }
  return OkStatus();
}

Status NetGraph::AddTops(GraphLayer* entry) {
  const caffe::LayerParameter& param = *entry->param;
  for (int top = 0; top < param.top_size(); ++top) {
    const std::string& name = param.top(top);
    int* const latest = Latest(name);
    const bool in_place = top == 0 && param.bottom_size() > 0 && param.bottom(0) == name;
    if (latest != nullptr && blobs_[*latest].producer == static_cast<int>(layers_.size())) {
      return InvalidArgument("layer \"%s\": has the top \"%s\" twice", param.name().c_str(), name.c_str());
    }
    if (latest != nullptr && !in_place) {
      return InvalidArgument("layer \"%s\": top \"%s\" is already produced by layer \"%s\"", param.name().c_str(),
                             name.c_str(), layers_[blobs_[*latest].producer].param->name().c_str());
    }
    if (in_place && !entry->traits.allows_in_place()) {
      return InvalidArgument("layer \"%s\": a %s layer can't work in place (bottom and top are both \"%s\")",
                             param.name().c_str(), param.type().c_str(), name.c_str());
    }
    // A blob that somebody else reads too is not overwritten: the layer gets memory of its own.
    entry->in_place |= in_place && blobs_[entry->bottoms[0]].consumers.size() == 1;
    const int id = AddBlob(name, top, entry);
    if (latest != nullptr) {
      *latest = id;
    } else {
      current_.emplace_back(name, id);
    }
  }
  if (param.top_size() == 0 && entry->is_statistic()) AddAutomaticTop(entry);
  return OkStatus();
}

// As Caffe does: the loss counts, and is no output of the net.
void NetGraph::AddAutomaticTop(GraphLayer* entry) { blobs_[AddBlob("(automatic)", 0, entry)].automatic = true; }

namespace {

caffe::LayerParameter OfType(const char* type) {
  caffe::LayerParameter param;
  param.set_type(type);
  return param;
}

}  // namespace

int NetGraph::AddOwnEntry(GraphLayer::Piece piece, const char* suffix, int order, int blob, caffe::LayerParameter own) {
  auto param = std::make_unique<caffe::LayerParameter>(std::move(own));
  param->set_name(blobs_[blob].name + suffix);
  param->add_bottom(blobs_[blob].name);
  param->add_top(param->name());
  const StatusOr<LayerTraits> traits = LayerTraits::Create(*param, LayerTypes::BuiltIn());
  CHECK(traits.ok()) << traits.status();
  GraphLayer entry(*traits);
  own_params_.push_back(std::move(param));
  entry.piece = piece;
  entry.order = order;
  entry.in_place = piece == GraphLayer::kScatter;
  entry.label_targets = piece == GraphLayer::kLabels;
  entry.bottoms = {blob};
  blobs_[blob].consumers.push_back(static_cast<int>(layers_.size()));
  const int top = AddBlob(blobs_[blob].name, 0, &entry);
  layers_.push_back(std::move(entry));
  return top;
}

// In the place of its first reader: it computes nothing, and the slices that land are its output.
int NetGraph::ScatteredInto(int group, int order, int blob) {
  const auto [found, added] = scattered_.emplace(std::pair(blob, group), -1);
  if (added) found->second = AddOwnEntry(GraphLayer::kScatter, ".scatter", order, blob, OfType("Split"));
  return found->second;
}

void NetGraph::AddLabelValues() {
  const int order = layers_.back().order;
  const std::vector<int> tops = layers_.back().tops;
  for (const SourceTop& top : source_tops_) {
    if (top.layer != order || top.role != SourceTop::kLabels || !top.read_as_values) continue;
    label_values_[tops[top.top]] = AddOwnEntry(GraphLayer::kLabels, ".values", order, tops[top.top], OfType("Split"));
  }
}

// As in Caffe, where the loss is the product of weights and values of any blob, and the weight the gradient of each.
void NetGraph::AddWeightedSums(int order, const LayerTraits& traits) {
  if (traits.is_statistic()) return;
  for (int top = 0; top < traits.param().top_size(); ++top) {
    if (traits.loss_weight(top) == 0) continue;
    caffe::LayerParameter sum = OfType("Reduction");
    sum.mutable_reduction_param()->set_axis(0);
    sum.add_loss_weight(traits.loss_weight(top));
    AddOwnEntry(GraphLayer::kWeighted, ".weighted", order, *Latest(traits.param().top(top)), std::move(sum));
  }
}

// What others read, too, is no output.
void NetGraph::HideSumsOfReadBlobs() {
  for (const GraphLayer& entry : layers_) {
    if (entry.piece != GraphLayer::kWeighted) continue;
    const GraphBlob& blob = blobs_[entry.bottoms[0]];
    blobs_[entry.tops[0]].automatic = blob.consumers.size() > 1 || blob.silenced;
  }
}

// The latest layer keeps its weights and yields parts of sums; an entry behind it adds them up, and then the bias.
void NetGraph::CutProduct() {
  GraphLayer& product = layers_.back();
  GraphLayer sum(product.traits);
  product.piece = GraphLayer::kProduct;
  sum.piece = GraphLayer::kSum;
  sum.order = product.order;
  sum.bottoms = product.tops;
  const int part = product.tops[0];
  blobs_[part].consumers.push_back(static_cast<int>(layers_.size()));
  const int whole = AddBlob(blobs_[part].name, 0, &sum);
  for (auto& [name, blob] : current_) {
    if (blob == part) blob = whole;
  }
  layers_.push_back(std::move(sum));
}

// The latest layer says something of the classes of each shard; an entry behind it has its tops.
void NetGraph::CutClasses(int shards) {
  const int index = static_cast<int>(layers_.size()) - 1;
  GraphLayer& classes = layers_.back();
  GraphLayer merged(classes.traits);
  merged.piece = GraphLayer::kMerged;
  merged.order = classes.order;
  merged.class_shards = shards;
  merged.tops = std::exchange(classes.tops, {});
  for (int top : merged.tops) blobs_[top].producer = index + 1;
  classes.piece = GraphLayer::kClasses;
  classes.class_shards = shards;
  classes.in_place = false;
  GraphBlob said;
  said.name = classes.name();
  said.producer = index;
  blobs_.push_back(said);
  classes.tops = {static_cast<int>(blobs_.size()) - 1};
  merged.bottoms = classes.bottoms;
  if (classes.traits.class_split()->on_one_shard) {
    merged.bottoms[0] = classes.tops[0];
  } else {
    merged.bottoms.push_back(classes.tops[0]);
  }
  for (int bottom : merged.bottoms) blobs_[bottom].consumers.push_back(index + 1);
  layers_.push_back(std::move(merged));
}

// A layer learns if one of its blobs does, by its own factor or by that of the parameter that it shares.
Status NetGraph::FindShared() {
  std::vector<LayerTraits> layers;  // each layer of the prototxt once
  for (const GraphLayer& entry : layers_) {
    const bool first = entry.piece != GraphLayer::kSum && entry.piece != GraphLayer::kMerged;
    if (first && !entry.of_no_layer()) layers.push_back(entry.traits);
  }
  HP_ASSIGN_OR_RETURN(SharedParams shared, SharedParams::Create(layers, phase_));
  shared_ = std::make_shared<const SharedParams>(std::move(shared));
  for (GraphLayer& entry : layers_) {
    entry.shared = shared_.get();
    for (int blob = entry.first_blob(); blob < entry.first_blob() + entry.blobs(); ++blob) {
      const SharedParams::Param* const param = shared_->Find(entry.traits.name(), blob);
      entry.learns |= param != nullptr && !param->averages ? param->lr_mult != 0 : entry.traits.learns(blob);
    }
  }
  return OkStatus();
}

void NetGraph::ShareAs(const NetGraph& train) {
  shared_ = train.shared_;
  for (GraphLayer& entry : layers_) entry.shared = shared_.get();
}

bool NetGraph::reads_records() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const GraphLayer& layer) { return layer.traits.source() == SourceKind::kDataset; });
}

int64_t NetGraph::batch_size() const {
  const auto source =
      std::find_if(layers_.begin(), layers_.end(), [](const GraphLayer& layer) { return layer.source; });
  return source == layers_.end() ? 0 : std::max<int64_t>(0, source->traits.batch_size());
}

// The sum of a blob with a loss weight has the blob's name and is of no layer.
int NetGraph::FindBlob(const std::string& name) const {
  const auto last = std::find_if(blobs_.rbegin(), blobs_.rend(), [&](const GraphBlob& blob) {
    return blob.name == name && layers_[blob.producer].piece != GraphLayer::kWeighted;
  });
  return static_cast<int>(blobs_.rend() - last) - 1;
}

std::vector<int> NetGraph::outputs() const {
  std::vector<int> outputs;
  for (const GraphLayer& layer : layers_) {
    if (!layer.is_statistic()) continue;
    for (int top : layer.tops) {
      const GraphBlob& blob = blobs_[top];
      if (blob.consumers.empty() && !blob.automatic && !blob.silenced) outputs.push_back(top);
    }
  }
  return outputs;
}

}  // namespace hp
