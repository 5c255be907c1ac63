#include "commands/named_blobs.h"

#include <set>
#include <utility>

namespace hp {
namespace {

class BlobNamer {
 public:
  BlobNamer(const WeightNames& names, const caffe::NetParameter& net, const BlobShapes& shapes)
      : names_(names), shapes_(shapes) {
    for (const caffe::LayerParameter& layer : net.layer()) types_[layer.name()] = layer.type();
    for (const auto& [key, shape] : shapes) ++blobs_[key.first];
  }

  /// Each layer under its own name.
  Status NameAll(const caffe::NetParameter& net) {
    for (const caffe::LayerParameter& layer : net.layer()) {
      const auto found = blobs_.find(layer.name());
      if (found == blobs_.end()) continue;
      groups_.push_back({"layer \"" + layer.name() + "\"", layer.name(), {}});
      if (HasModuleNames(layer.name())) {
        HP_RETURN_IF_ERROR(AddLayer(layer.name(), layer.name()));
        continue;
      }
      for (int i = 0; i < found->second; ++i) {
        HP_RETURN_IF_ERROR(Add({layer.name() + "." + std::to_string(i), {layer.name(), i}}));
      }
    }
    return OkStatus();
  }

  Status NameLines() {
    for (const WeightNames::Module& module : names_.modules) {
      groups_.push_back({names_.At(module.line), module.name, {}});
      for (const std::string& layer : module.layers) {
        HP_RETURN_IF_ERROR(CheckLayer(layer).Prepend(groups_.back().at));
        HP_RETURN_IF_ERROR(AddLayer(module.name, layer).Prepend(groups_.back().at));
      }
    }
    for (const WeightNames::Single& single : names_.singles) {
      groups_.push_back({names_.At(single.line), single.tensor, {}});
      HP_RETURN_IF_ERROR(CheckLayer(single.layer).Prepend(groups_.back().at));
      HP_RETURN_IF_ERROR(Add({single.tensor, {single.layer, single.blob}}).Prepend(groups_.back().at));
    }
    HP_RETURN_IF_ERROR(AddColors());
    return CheckWhole();
  }

  std::vector<NamedGroup> groups() && { return std::move(groups_); }

 private:
  bool IsAverage(const std::string& layer) const { return types_.at(layer) == "BatchNorm"; }
  bool HasModuleNames(const std::string& layer) const { return IsAverage(layer) || blobs_.at(layer) <= 2; }

  Status CheckLayer(const std::string& layer) const {
    if (!types_.contains(layer)) return InvalidArgument("the net has no layer \"%s\"", layer.c_str());
    if (blobs_.contains(layer)) return OkStatus();
    return InvalidArgument("layer \"%s\" has no parameters of its own", layer.c_str());
  }

  Status Add(NamedBlob blob) {
    const auto& [layer, index] = blob.blob;
    if (!shapes_.contains(blob.blob)) {
      return InvalidArgument("layer \"%s\" has no blob %d; it has %d", layer.c_str(), index, blobs_.at(layer));
    }
    if (!tensors_.insert(blob.tensor).second) return InvalidArgument("\"%s\" is named twice", blob.tensor.c_str());
    if (!named_.insert(blob.blob).second) {
      return InvalidArgument("blob %d of layer \"%s\" is named twice", index, layer.c_str());
    }
    groups_.back().blobs.push_back(std::move(blob));
    return OkStatus();
  }

  /// Under the names that modules of PyTorch have.
  Status AddLayer(const std::string& module, const std::string& layer) {
    if (IsAverage(layer)) {
      const BlobKey divisor(layer, 2);
      HP_RETURN_IF_ERROR(Add({module + ".running_mean", {layer, 0}, divisor}));
      HP_RETURN_IF_ERROR(Add({module + ".running_var", {layer, 1}, divisor}));
      named_.insert(divisor);
      return OkStatus();
    }
    if (!HasModuleNames(layer)) {
      return InvalidArgument("layer \"%s\" of type %s has %d blobs; name each by a line \"TENSOR = %s BLOB\"",
                             layer.c_str(), types_.at(layer).c_str(), blobs_.at(layer), layer.c_str());
    }
    const bool only_bias = types_.at(layer) == "Bias";
    HP_RETURN_IF_ERROR(Add({module + (only_bias ? ".bias" : ".weight"), {layer, 0}}));
    return blobs_.at(layer) == 2 ? Add({module + ".bias", {layer, 1}}) : OkStatus();
  }

  Status AddColors() {
    for (const WeightNames::Colors& colors : names_.colors) {
      NamedBlob* const blob = Find({colors.layer, 0});
      if (blob == nullptr || shapes_.at(blob->blob).rank() != 4 || shapes_.at(blob->blob)[1] != 3) {
        return InvalidArgument("%s: expected a layer named above that convolves images of three colours; not \"%s\"",
                               names_.At(colors.line).c_str(), colors.layer.c_str());
      }
      blob->colors = colors.std;
    }
    return OkStatus();
  }

  NamedBlob* Find(const BlobKey& key) {
    for (NamedGroup& group : groups_) {
      for (NamedBlob& blob : group.blobs) {
        if (blob.blob == key) return &blob;
      }
    }
    return nullptr;
  }

  // A .caffemodel has all blobs of a layer or none.
  Status CheckWhole() const {
    std::set<std::string> layers;
    for (const auto& [layer, blob] : named_) layers.insert(layer);
    for (const auto& [key, shape] : shapes_) {
      if (!layers.contains(key.first) || named_.contains(key)) continue;
      return InvalidArgument("%s: blob %d of layer \"%s\" has no name, but others of the layer have",
                             names_.path.c_str(), key.second, key.first.c_str());
    }
    return OkStatus();
  }

  const WeightNames& names_;
  const BlobShapes& shapes_;
  std::map<std::string, std::string> types_;  // by layer
  std::map<std::string, int> blobs_;          // how many, by layer
  std::set<std::string> tensors_;
  std::set<BlobKey> named_;
  std::vector<NamedGroup> groups_;
};

}  // namespace

StatusOr<std::vector<NamedGroup>> NameBlobs(const WeightNames& names, const caffe::NetParameter& net,
                                            const BlobShapes& shapes) {
  BlobNamer namer(names, net, shapes);
  HP_RETURN_IF_ERROR(names.path.empty() ? namer.NameAll(net) : namer.NameLines());
  return std::move(namer).groups();
}

}  // namespace hp
