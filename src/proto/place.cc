#include "proto/place.h"

#include "base/format.h"
#include "proto/placed_text.h"

#include <sstream>

namespace hp {
namespace {

using google::protobuf::TextFormat;

// What stands between the first two quotes of 'layer "NAME"...'; empty: the message begins otherwise.
std::string LayerNamedBy(const std::string& message) {
  const std::string begin = "layer \"";
  if (message.rfind(begin, 0) != 0) return "";
  const size_t end = message.find('"', begin.size());
  return end == std::string::npos ? "" : message.substr(begin.size(), end - begin.size());
}

// Line of the layer in the text that `tree` was made of, from 1; 0: there is none.
int LineOf(const std::string& layer, const caffe::NetParameter& net, const TextFormat::ParseInfoTree& tree) {
  const auto* field = caffe::NetParameter::descriptor()->FindFieldByNumber(caffe::NetParameter::kLayerFieldNumber);
  for (int i = 0; i < net.layer_size(); ++i) {
    if (net.layer(i).name() == layer) return tree.GetLocation(field, i).line + 1;
  }
  const auto* old = caffe::NetParameter::descriptor()->FindFieldByNumber(caffe::NetParameter::kLayersFieldNumber);
  for (int i = 0; i < net.layers_size(); ++i) {
    const caffe::V1LayerParameter& entry = net.layers(i);
    if ((entry.has_layer() ? entry.layer().name() : entry.name()) == layer) return tree.GetLocation(old, i).line + 1;
  }
  return 0;
}

// Line of the field whose name `fault` begins with, from 1; 0: it is not set in the text that `tree` was made of.
int LineOfFirstField(const std::string& fault, const TextFormat::ParseInfoTree& tree) {
  const std::string name = fault.substr(0, fault.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"));
  const auto* field = caffe::SolverParameter::descriptor()->FindFieldByName(name);
  return field == nullptr ? 0 : tree.GetLocation(field, field->is_repeated() ? 0 : -1).line + 1;
}

template <typename Message, typename Line>
Status WithPlace(const Status& status, const std::string& path, const Line& line_of) {
  const std::string layer = LayerNamedBy(status.message());
  if (status.ok() || layer.empty()) return status;
  Message message;
  TextFormat::ParseInfoTree tree;
  if (!ReadPlacedText(path, &message, &tree).ok()) return status;
  const int line = line_of(layer, message, tree);
  return line == 0 ? status : status.Prepend(Format("%s:%d", path.c_str(), line));
}

}  // namespace

Status AtLayer(const Status& status, const std::string& path) {
  return WithPlace<caffe::NetParameter>(status, path, LineOf);
}

Status AtFile(const Status& status, const std::string& path) {
  return status.message().rfind(path + ":", 0) == 0 ? status : status.Prepend(path);
}

Status AtLayer(const Status& status, const caffe::SolverParameter& solver, const std::string& solver_path) {
  if (!solver.has_net_param()) return AtLayer(status, solver.net());
  return WithPlace<caffe::SolverParameter>(
      status, solver_path,
      [](const std::string& layer, const caffe::SolverParameter& read, const TextFormat::ParseInfoTree& tree) {
        const auto* field =
            caffe::SolverParameter::descriptor()->FindFieldByNumber(caffe::SolverParameter::kNetParamFieldNumber);
        TextFormat::ParseInfoTree* const inner = tree.GetTreeForNested(field, -1);
        return inner == nullptr ? 0 : LineOf(layer, read.net_param(), *inner);
      });
}

Status AtFields(const Status& status, const std::string& solver_path) {
  if (status.ok()) return status;
  caffe::SolverParameter read;
  TextFormat::ParseInfoTree tree;
  const bool known = ReadPlacedText(solver_path, &read, &tree).ok();
  std::istringstream faults(status.message());
  std::string message;
  for (std::string fault; std::getline(faults, fault);) {
    const int line = known ? LineOfFirstField(fault, tree) : 0;
    message +=
        (message.empty() ? "" : "\n") + solver_path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + fault;
  }
  return Status(status.code(), message);
}

}  // namespace hp
