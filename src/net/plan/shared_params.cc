#include "net/plan/shared_params.h"

#include "net/plan/placement.h"
#include "proto/caffe.pb.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hp {
namespace {

/// A name of the prototxt, however many blobs have it.
struct Named {
  SharedParams::Param param;
  const char *lr_mult_of = nullptr, *decay_mult_of = nullptr;  // the layer that states it; null: none does
  const char* sampled = nullptr;                               // a layer with sample_rate below 1; null: none
  bool gathers = false;                                        // its first layer gathers statistics
};

/// Takes a factor that layer `layer` states, for the first time or not.
Status TakeFactor(const char* field, float stated, const std::string& layer, const std::string& name, float* factor,
                  const char** stated_by) {
  if (*stated_by == nullptr) {
    *factor = stated;
    *stated_by = layer.c_str();
    return OkStatus();
  }
  if (*factor == stated) return OkStatus();
  return InvalidArgument(
      "layer \"%s\": param { name: \"%s\" %s: %g }, but layer \"%s\", which shares that parameter, has %s: %g; "
      "expected the same, or one of them without it",
      layer.c_str(), name.c_str(), field, stated, *stated_by, field, *factor);
}

/// Of a layer that shares a parameter with others.
Status CheckAverages(const LayerTraits& layer, Phase phase, const Named& named) {
  const std::string &name = named.param.name, &owner = named.param.uses[0].layer;
  if (layer.average_keeps().has_value() != named.param.averages) {
    return InvalidArgument(
        "layers \"%s\" and \"%s\" share the parameter \"%s\", which is an average of statistics of one and learned by "
        "the other; expected other names",
        owner.c_str(), layer.name().c_str(), name.c_str());
  }
  if (named.param.averages && phase.train() && layer.uses_batch_statistics() != named.gathers) {
    return InvalidArgument(
        "layers \"%s\" and \"%s\" share the average \"%s\", and one of them alone has use_global_stats: true; expected "
        "the same of both, or other names",
        owner.c_str(), layer.name().c_str(), name.c_str());
  }
  return OkStatus();
}

Status CheckUse(const LayerTraits& layer, int blob, Phase phase, const Named& named) {
  const std::string& name = named.param.name;
  if (named.param.uses.empty()) return OkStatus();
  const SharedParams::Use& owner = named.param.uses[0];
  if (named.param.uses.back().layer == layer.name()) {
    return InvalidArgument(
        "layer \"%s\": its blobs %d and %d have one name, \"%s\"; only blobs of different layers can "
        "share a parameter",
        layer.name().c_str(), named.param.uses.back().blob, blob, name.c_str());
  }
  const char* const sampled = layer.sample_rate() < 1 ? layer.name().c_str() : named.sampled;
  if (sampled != nullptr) {
    return InvalidArgument(
        "layers \"%s\" and \"%s\" share the parameter \"%s\", and \"%s\" has sample_rate below 1; expected "
        "sample_rate: 1, or other names",
        owner.layer.c_str(), layer.name().c_str(), name.c_str(), sampled);
  }
  return CheckAverages(layer, phase, named);
}

/// Layers that gather statistics share all of their averages or none: one factor is for all blobs of a layer.
Status CheckWholeAverages(const std::vector<Named>& all) {
  std::map<std::pair<std::string, int>, std::vector<std::string>> sharers;  // of a layer's blob: all its layers
  for (const Named& named : all) {
    if (!named.gathers || named.param.uses.size() < 2) continue;
    std::vector<std::string> layers;
    for (const SharedParams::Use& use : named.param.uses) layers.push_back(use.layer);
    for (const SharedParams::Use& use : named.param.uses) sharers[{use.layer, use.blob}] = layers;
  }
  for (const auto& [of, layers] : sharers) {
    for (int blob = 0; blob < 3; ++blob) {
      const auto other = sharers.find({of.first, blob});
      if (other != sharers.end() && other->second == layers) continue;
      return InvalidArgument(
          "layers \"%s\" and \"%s\" share blob %d of their averages, and blob %d is not shared by the same layers; "
          "expected one name for each of the three blobs in all layers that share one, or none",
          layers[0].c_str(), layers[1].c_str(), of.second, blob);
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<SharedParams> SharedParams::Create(const std::vector<LayerTraits>& layers, Phase phase) {
  std::vector<Named> all;
  std::map<std::string, size_t> index;
  for (const LayerTraits& layer : layers) {
    for (int blob = 0; blob < layer.param().param_size(); ++blob) {
      const caffe::ParamSpec& spec = layer.param().param(blob);
      if (spec.name().empty()) continue;
      const auto [found, is_new] = index.try_emplace(spec.name(), all.size());
      if (is_new) {
        Named& named = all.emplace_back();
        named.param.name = spec.name();
        named.param.averages = layer.average_keeps().has_value();
        named.gathers = phase.train() && layer.uses_batch_statistics();
      }
      Named& named = all[found->second];
      HP_RETURN_IF_ERROR(CheckUse(layer, blob, phase, named));
      if (layer.sample_rate() < 1) named.sampled = layer.name().c_str();
      const bool permissive = spec.share_mode() == caffe::ParamSpec::PERMISSIVE;
      named.param.uses.push_back({layer.name(), blob, permissive, layer.average_keeps().value_or(1)});
      const auto take = [&](const char* field, float stated, float* factor, const char** stated_by) {
        return TakeFactor(field, stated, layer.name(), spec.name(), factor, stated_by);
      };
      if (spec.has_lr_mult()) {
        HP_RETURN_IF_ERROR(take("lr_mult", spec.lr_mult(), &named.param.lr_mult, &named.lr_mult_of));
      }
      if (spec.has_decay_mult()) {
        HP_RETURN_IF_ERROR(take("decay_mult", spec.decay_mult(), &named.param.decay_mult, &named.decay_mult_of));
      }
    }
  }
  HP_RETURN_IF_ERROR(CheckWholeAverages(all));
  SharedParams shared;
  for (Named& named : all) {
    if (named.param.uses.size() > 1) shared.params_.push_back(std::move(named.param));
  }
  return shared;
}

float SharedParams::Param::keeps() const {
  float keeps = 1;
  for (const Use& use : uses) keeps *= use.keeps;
  return keeps;
}

float SharedParams::Param::ShareOf(const std::string& layer) const {
  float share = 1;
  for (auto use = uses.rbegin(); use != uses.rend() && use->layer != layer; ++use) share *= use->keeps;
  return share;
}

const SharedParams::Param* SharedParams::Find(const std::string& layer, int blob) const {
  const auto found = std::find_if(params_.begin(), params_.end(), [&](const Param& param) {
    return std::any_of(param.uses.begin(), param.uses.end(),
                       [&](const Use& use) { return use.blob == blob && use.layer == layer; });
  });
  return found == params_.end() ? nullptr : &*found;
}

namespace {

/// A blob of a graph's entry.
struct PlacedUse {
  const SharedParams::Use* use = nullptr;
  int layer = 0;  // index into the graph's layers
  ParamSpec spec;
};

std::vector<PlacedUse> PlacedUsesOf(const NetGraph& graph, const std::vector<Shape>& shapes,
                                    const SharedParams::Param& param) {
  std::vector<PlacedUse> placed;
  for (int i = 0; i < static_cast<int>(graph.layers().size()); ++i) {
    const GraphLayer& entry = graph.layers()[i];
    if (entry.source || entry.blobs() == 0) continue;
    for (const SharedParams::Use& use : param.uses) {
      const int at = use.blob - entry.first_blob();
      if (use.layer != entry.traits.name() || at < 0 || at >= entry.blobs()) continue;
      std::vector<Shape> in;
      for (const int bottom : entry.bottoms) in.push_back(shapes[bottom]);
      placed.push_back({&use, i, entry.Params(in)[static_cast<size_t>(at)]});
    }
  }
  return placed;
}

Status CheckShapes(const std::string& name, const PlacedUse& owner, const PlacedUse& user) {
  const Shape &has = user.spec.shape, &wanted = owner.spec.shape;
  const bool fits = user.use->permissive ? has.count() == wanted.count() : has == wanted;
  if (fits) return OkStatus();
  return InvalidArgument(
      "layer \"%s\": param { name: \"%s\" } is blob %d, of shape [%s], but the parameter is blob %d of layer \"%s\", "
      "of shape [%s]; expected %s",
      user.use->layer.c_str(), name.c_str(), user.use->blob, has.ToString().c_str(), owner.use->blob,
      owner.use->layer.c_str(), wanted.ToString().c_str(),
      user.use->permissive ? "as many elements" : "the same shape, or as many elements and share_mode: PERMISSIVE");
}

/// Whether each node of a stage has the same part of both.
bool LieAlike(const Placement& placement, int stage, const PlacedUse& a, const PlacedUse& b) {
  for (int part = 0; part < placement.distinct_parts(stage); ++part) {
    const Block of_a = placement.BlockOn(a.layer, part, a.spec);
    const Block of_b = placement.BlockOn(b.layer, part, b.spec);
    if (of_a.empty() && of_b.empty()) continue;
    const bool whole = of_a.count() == a.spec.shape.count() && of_b.count() == b.spec.shape.count();
    if (!whole && (of_a != of_b || ColumnsOf(a.spec.shape) != ColumnsOf(b.spec.shape))) return false;
  }
  return true;
}

Status CheckPlaces(const Placement& placement, const std::string& name, const PlacedUse& owner, const PlacedUse& user) {
  const int stage = placement.stage_of(owner.layer), other = placement.stage_of(user.layer);
  const char *first = owner.use->layer.c_str(), *second = user.use->layer.c_str();
  const auto& stages = placement.layout().stages;
  if (stage != other) {
    return InvalidArgument(
        "layers \"%s\" and \"%s\" share the parameter \"%s\", but are in stages \"%s\" and \"%s\" of the table; "
        "expected both in one stage",
        first, second, name.c_str(), stages[stage].name.c_str(), stages[other].name.c_str());
  }
  if (LieAlike(placement, stage, owner, user)) return OkStatus();
  return InvalidArgument(
      "layers \"%s\" and \"%s\" share the parameter \"%s\", but the %d shards of stage \"%s\" have other parts of one "
      "than of the other; expected blobs of one shape and the same split of both layers in the table, or one shard",
      first, second, name.c_str(), placement.distinct_parts(stage), stages[stage].name.c_str());
}

}  // namespace

std::vector<SharedBlob> UsersOf(const NetGraph& graph, const std::vector<Shape>& shapes,
                                const SharedParams::Param& param) {
  std::vector<SharedBlob> users;
  for (const PlacedUse& placed : PlacedUsesOf(graph, shapes, param)) {
    if (placed.use == &param.uses[0]) continue;
    users.push_back({placed.use->layer, placed.use->blob, placed.spec.shape});
  }
  return users;
}

Status CheckShared(const NetGraph& graph, const Placement& placement, const std::vector<Shape>& shapes) {
  for (const SharedParams::Param& param : graph.shared().params()) {
    const std::vector<PlacedUse> placed = PlacedUsesOf(graph, shapes, param);
    for (const PlacedUse& user : placed) {
      HP_RETURN_IF_ERROR(CheckShapes(param.name, placed[0], user));
      HP_RETURN_IF_ERROR(CheckPlaces(placement, param.name, placed[0], user));
    }
  }
  return OkStatus();
}

}  // namespace hp
