#include "proto/check_net.h"

#include "base/format.h"

namespace hp {
namespace {

class Checker {
 public:
  Checker(const caffe::NetParameter& net, const std::string& path, const std::function<int(int)>& line_of)
      : net_(net), path_(path), line_of_(line_of) {}

  Status Check() const {
    if (net_.layer_size() == 0)
      return InvalidArgument("%s: the net has no layers; expected \"layer { ... }\"", path_.c_str());
    for (int i = 0; i < net_.layer_size(); ++i) HP_RETURN_IF_ERROR(CheckLayer(i));
    return OkStatus();
  }

 private:
  std::string Where(int layer) const { return line_of_ ? Format("%s:%d", path_.c_str(), line_of_(layer)) : path_; }

  Status CheckLayer(int i) const {
    const caffe::LayerParameter& layer = net_.layer(i);
    const char* name = layer.name().c_str();
    if (layer.type().empty()) {
      return InvalidArgument("%s: layer \"%s\" has no type; expected type: \"...\"", Where(i).c_str(), name);
    }
    if (layer.include_size() > 0 && layer.exclude_size() > 0) {
      return InvalidArgument("%s: layer \"%s\" has both include and exclude rules; give one kind", Where(i).c_str(),
                             name);
    }
    return OkStatus();
  }

  const caffe::NetParameter& net_;
  const std::string& path_;
  const std::function<int(int)>& line_of_;
};

}  // namespace

Status CheckNet(const caffe::NetParameter& net, const std::string& path, const std::function<int(int)>& line_of) {
  return Checker(net, path, line_of).Check();
}

}  // namespace hp
