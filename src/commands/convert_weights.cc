#include "commands/convert_weights.h"

#include "base/format.h"
#include "base/words.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "commands/named_blobs.h"
#include "commands/sample_shape.h"
#include "commands/weight_names.h"
#include "net/plan/graph.h"
#include "net/plan/node_plan.h"
#include "net/plan/placement.h"
#include "proto/net_filter.h"
#include "proto/place.h"
#include "proto/text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr float kLargestDivisor = 1 << 20;

/// A net in one phase, and what its blobs are called.
struct NamedNet {
  caffe::NetParameter net;
  BlobShapes shapes;
  std::vector<NamedGroup> groups;
};

/// A deploy net is the same in both phases; heads that only train are in TRAIN.
caffe::Phase PhaseOf(const caffe::NetParameter& net) {
  const auto& layers = net.layer();
  const bool deploy = std::any_of(layers.begin(), layers.end(), [](const auto& l) { return l.type() == "Input"; });
  return deploy ? caffe::TEST : caffe::TRAIN;
}

/// @param net whole, of all phases.
StatusOr<BlobShapes> ShapesOf(const caffe::NetParameter& net, caffe::Phase phase,
                              const ConvertWeightsOptions& options) {
  const auto shared = std::make_shared<const caffe::NetParameter>(net);
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(shared, phase));
  HP_ASSIGN_OR_RETURN(const SampleShape sample, SampleShapeOfNet(options.sample, net, phase, options.cache_dir));
  const StageLayout layout{{{true, {0}}}, std::vector<int>(net.layer_size(), 0), {}};
  HP_ASSIGN_OR_RETURN(const Placement placement, Placement::Create(*graph, sample, layout));
  HP_ASSIGN_OR_RETURN(const NodePlan plan, NodePlan::Create(*graph, placement, {.sample = sample}));
  BlobShapes shapes;
  for (const ParamPlan& param : plan.params()) {
    if (param.spec.transposed) {
      return InvalidArgument("layer \"%s\": transpose: true: expected weights [outputs, inputs], as PyTorch has them",
                             param.layer.c_str());
    }
    shapes[{param.layer, param.blob}] = param.spec.shape;
    // A state_dict has a shared parameter under each of its names, and so has a .caffemodel.
    for (const SharedBlob& user : param.users) shapes[{user.layer, user.blob}] = user.shape;
  }
  return shapes;
}

StatusOr<NamedNet> NameNet(const ConvertWeightsOptions& options) {
  HP_ASSIGN_OR_RETURN(const caffe::NetParameter whole, ReadNet(options.net));
  const caffe::Phase phase = PhaseOf(whole);
  StatusOr<BlobShapes> shapes = ShapesOf(whole, phase, options);
  if (!shapes.ok()) return AtLayer(shapes.status(), whole, phase);
  NamedNet named{FilterNet(whole, phase), *std::move(shapes), {}};
  WeightNames names;
  if (!options.names.empty()) {
    HP_ASSIGN_OR_RETURN(names, ReadWeightNames(options.names));
  }
  HP_ASSIGN_OR_RETURN(named.groups, NameBlobs(names, named.net, named.shapes));
  return named;
}

/// What a conversion left aside.
struct LeftOut {
  std::vector<std::string> modules;  ///< that the file does not have
  std::vector<std::string> unnamed;  ///< of the file, without a name
};

/// "a, b, ..., and 12 more": a file may have thousands.
std::string FirstOf(const std::vector<std::string>& names) {
  constexpr size_t kFirst = 10;
  if (names.size() <= kFirst) return Join(names);
  return Join({names.begin(), names.begin() + kFirst}) + ", and " + std::to_string(names.size() - kFirst) + " more";
}

std::string Done(const std::string& to, size_t tensors, const std::string& from, const LeftOut& left) {
  std::string text = Format("%s: %zu tensors of %s", to.c_str(), tensors, from.c_str());
  if (!left.modules.empty()) text += "; left out, since the file does not have them: " + FirstOf(left.modules);
  if (!left.unnamed.empty()) text += "; ignored, since no line names them: " + FirstOf(left.unnamed);
  return text;
}

/// Which of a group's blobs a file has. @return kNotFound: some of them, and not all.
StatusOr<bool> HasGroup(const NamedGroup& group, const std::string& path,
                        const std::function<bool(const NamedBlob&)>& has,
                        const std::function<std::string(const NamedBlob&)>& name) {
  const auto& blobs = group.blobs;
  const auto missing = std::find_if_not(blobs.begin(), blobs.end(), has);
  if (missing == blobs.end()) return true;
  if (std::none_of(blobs.begin(), blobs.end(), has)) return false;
  return NotFound("%s: no %s, but it has others of \"%s\" (%s)", path.c_str(), name(*missing).c_str(),
                  group.module.c_str(), group.at.c_str());
}

/// Multiplies the weights of a first convolution from [0, 1], divided by `std`, to [0, 255], or divides them back, and
/// turns the order of their colours around. @param values [O, 3, H, W].
void TurnColors(const Shape& shape, const std::array<float, 3>& std, bool to_caffe, std::vector<float>* values) {
  const int64_t plane = shape.count(2);
  for (int64_t o = 0; o < shape[0]; ++o) {
    float* const kernel = values->data() + o * 3 * plane;
    std::swap_ranges(kernel, kernel + plane, kernel + 2 * plane);
    for (int color = 0; color < 3; ++color) {
      const float scale = 255.0f * std[to_caffe ? 2 - color : color];
      for (float* at = kernel + color * plane; at != kernel + (color + 1) * plane; ++at) {
        *at = to_caffe ? *at / scale : *at * scale;
      }
    }
  }
}

/// The third blob of a BatchNorm: a power of two, so that nothing is rounded.
float DivisorOf(const caffe::NetParameter& net, const std::string& layer) {
  const auto& layers = net.layer();
  const auto found = std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.name() == layer; });
  const float passes = 1 / (1 - found->batch_norm_param().moving_average_fraction());
  if (!(passes > 1)) return 1;
  return std::min(std::exp2(std::round(std::log2(passes))), kLargestDivisor);
}

void Scale(float factor, std::vector<float>* values) {
  for (float& value : *values) value *= factor;
}

/// A net with another value computes no number from any image.
Status CheckFinite(const std::string& path, const NamedBlob& name, const std::vector<float>& values) {
  const auto found = std::find_if_not(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  if (found == values.end()) return OkStatus();
  return DataLoss("%s: tensor \"%s\" (blob %d of layer \"%s\") has the value %g at index %td; expected finite values",
                  path.c_str(), name.tensor.c_str(), name.blob.second, name.blob.first.c_str(), *found,
                  found - values.begin());
}

// --- to Caffe

/// Those of a module that a layer has no blob for would be lost.
Status CheckNothingLost(const NamedGroup& group, const SafetensorsFile& file) {
  for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
    const std::string tensor = group.module + part;
    const bool named = std::any_of(group.blobs.begin(), group.blobs.end(),
                                   [&](const NamedBlob& blob) { return blob.tensor == tensor; });
    if (named || !file.entries().contains(tensor)) continue;
    return InvalidArgument("%s has \"%s\", but the layer(s) of \"%s\" have no blob for it (%s)", file.path().c_str(),
                           tensor.c_str(), group.module.c_str(), group.at.c_str());
  }
  return OkStatus();
}

Status TakeTensor(const NamedNet& named, const NamedBlob& name, const SafetensorsFile& file, CaffeModel* model) {
  HP_ASSIGN_OR_RETURN(Blob blob, file.Read(name.tensor));
  const auto& [layer, index] = name.blob;
  const Shape& shape = named.shapes.at(name.blob);
  if (!ShapeFits(blob, shape)) {
    return FailedPrecondition("%s: tensor \"%s\" has shape \"%s\"; expected \"%s\" for blob %d of layer \"%s\"",
                              file.path().c_str(), name.tensor.c_str(), blob.shape.ToString().c_str(),
                              shape.ToString().c_str(), index, layer.c_str());
  }
  if (name.colors) TurnColors(shape, *name.colors, true, &blob.data);
  if (name.divisor) {
    const float divisor = DivisorOf(named.net, layer);
    Scale(divisor, &blob.data);
    model->blobs[*name.divisor] = Blob{named.shapes.at(*name.divisor), false, {divisor}};
  }
  HP_RETURN_IF_ERROR(CheckFinite(file.path(), name, blob.data));
  model->blobs[name.blob] = std::move(blob);
  return OkStatus();
}

StatusOr<std::string> ToCaffe(const std::string& from, const std::string& to, const NamedNet& named) {
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(from));
  CaffeModel model;
  LeftOut left;
  size_t count = 0;
  std::set<std::string> taken;
  const auto has = [&](const NamedBlob& blob) { return file->entries().contains(blob.tensor); };
  const auto name = [](const NamedBlob& blob) { return "tensor \"" + blob.tensor + "\""; };
  for (const NamedGroup& group : named.groups) {
    HP_ASSIGN_OR_RETURN(const bool there, HasGroup(group, from, has, name));
    if (!there) left.modules.push_back(group.module);
    HP_RETURN_IF_ERROR(CheckNothingLost(group, *file));
    if (there) taken.insert(group.module + ".num_batches_tracked");  // Caffe counts none
    for (size_t i = 0; there && i < group.blobs.size(); ++i) {
      HP_RETURN_IF_ERROR(TakeTensor(named, group.blobs[i], *file, &model));
      taken.insert(group.blobs[i].tensor);
      ++count;
    }
  }
  for (const auto& [tensor, entry] : file->entries()) {
    if (!taken.contains(tensor)) left.unnamed.push_back(Printable(tensor, 256));
  }
  if (model.blobs.empty()) {
    return NotFound("%s: none of its %zu tensors has a name that was expected, such as \"%s\"", from.c_str(),
                    file->entries().size(), named.groups.empty() ? "" : named.groups[0].blobs[0].tensor.c_str());
  }
  BlobRefs refs;
  for (const auto& [key, blob] : model.blobs) refs[key] = {blob.shape, blob.data.data()};
  caffe::NetParameter net = named.net;
  const auto is_left = [&](const caffe::LayerParameter& layer) {
    const BlobKey first(layer.name(), 0);
    return named.shapes.contains(first) && !refs.contains(first);
  };
  auto* const layers = net.mutable_layer();
  layers->erase(std::remove_if(layers->begin(), layers->end(), is_left), layers->end());
  HP_RETURN_IF_ERROR(WriteCaffeModel(to, net, refs));
  return Done(to, count, from, left);
}

// --- from Caffe

Status GiveTensor(const NamedNet& named, const NamedBlob& name, CaffeModel* model, std::map<std::string, Blob>* out) {
  const Shape& shape = named.shapes.at(name.blob);
  Blob blob = std::move(model->blobs.at(name.blob));
  HP_RETURN_IF_ERROR(CheckShape(blob, name.blob.first, name.blob.second, shape).Prepend(model->path));
  blob.shape = shape;  // without the ones of an old file
  if (name.colors) TurnColors(shape, *name.colors, false, &blob.data);
  if (name.divisor) {
    const Blob* const divisor = model->Find(name.divisor->first, name.divisor->second);
    if (divisor == nullptr || divisor->data.size() != 1) {
      return NotFound("%s: no blob %d of layer \"%s\" with one value", model->path.c_str(), name.divisor->second,
                      name.divisor->first.c_str());
    }
    // As Caffe's BatchNorm reads it.
    Scale(divisor->data[0] == 0 ? 0 : 1 / divisor->data[0], &blob.data);
  }
  HP_RETURN_IF_ERROR(CheckFinite(model->path, name, blob.data));
  out->insert_or_assign(name.tensor, std::move(blob));
  return OkStatus();
}

StatusOr<std::string> FromCaffe(const std::string& from, const std::string& to, const NamedNet& named) {
  HP_ASSIGN_OR_RETURN(CaffeModel model, ReadCaffeModel(from));
  std::map<std::string, Blob> tensors;
  LeftOut left;
  std::set<std::string> layers, file_layers;
  for (const auto& [key, blob] : model.blobs) file_layers.insert(key.first);
  const auto has = [&](const NamedBlob& blob) { return model.blobs.contains(blob.blob); };
  const auto name = [](const NamedBlob& blob) {
    return Format("blob %d of layer \"%s\"", blob.blob.second, blob.blob.first.c_str());
  };
  for (const NamedGroup& group : named.groups) {
    HP_ASSIGN_OR_RETURN(const bool there, HasGroup(group, from, has, name));
    if (!there) left.modules.push_back(group.module);
    for (size_t i = 0; there && i < group.blobs.size(); ++i) {
      layers.insert(group.blobs[i].blob.first);
      HP_RETURN_IF_ERROR(GiveTensor(named, group.blobs[i], &model, &tensors));
    }
  }
  std::set_difference(file_layers.begin(), file_layers.end(), layers.begin(), layers.end(),
                      std::back_inserter(left.unnamed));
  if (tensors.empty()) return NotFound("%s: has no layer that is named", from.c_str());
  HP_RETURN_IF_ERROR(WriteSafetensors(to, tensors));
  return Done(to, tensors.size(), from, left);
}

}  // namespace

StatusOr<std::string> ConvertWeights(const std::string& from, const std::string& to,
                                     const ConvertWeightsOptions& options) {
  if (IsSafetensorsPath(from) == IsSafetensorsPath(to)) {
    return InvalidArgument("from %s to %s: expected one .safetensors and one .caffemodel or .caffemodel.h5",
                           from.c_str(), to.c_str());
  }
  if (options.net.empty()) return InvalidArgument("--net=NET.prototxt is missing: the net whose weights these are");
  HP_ASSIGN_OR_RETURN(const NamedNet named, NameNet(options));
  return IsSafetensorsPath(from) ? ToCaffe(from, to, named) : FromCaffe(from, to, named);
}

}  // namespace hp
