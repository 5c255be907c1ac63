#include "proto/check_net.h"

namespace hp {
namespace {

class Checker {
 public:
  Checker(const caffe::NetParameter& net, const std::string& path) : net_(net), path_(path) {}

  Status Check() const {
    if (net_.layer_size() == 0)
      return InvalidArgument("%s: the net has no layers; expected \"layer { ... }\"", path_.c_str());
    for (const caffe::LayerParameter& layer : net_.layer()) HP_RETURN_IF_ERROR(CheckLayer(layer));
    return OkStatus();
  }

 private:
  Status CheckLayer(const caffe::LayerParameter& layer) const {
    const std::string& where = layer.place_size() > 0 ? layer.place(0) : path_;
    const char* name = layer.name().c_str();
    if (layer.type().empty()) {
      return InvalidArgument("%s: layer \"%s\" has no type; expected type: \"...\"", where.c_str(), name);
    }
    if (layer.include_size() > 0 && layer.exclude_size() > 0) {
      return InvalidArgument("%s: layer \"%s\" has both include and exclude rules; give one kind", where.c_str(), name);
    }
    return OkStatus();
  }

  const caffe::NetParameter& net_;
  const std::string& path_;
};

}  // namespace

Status CheckNet(const caffe::NetParameter& net, const std::string& path) { return Checker(net, path).Check(); }

}  // namespace hp
