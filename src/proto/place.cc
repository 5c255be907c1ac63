#include "proto/place.h"

#include "base/format.h"
#include "proto/layer_names.h"
#include "proto/placed_text.h"
#include "proto/several_bottoms.h"
#include "proto/solver_nets.h"

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

// Line of the layer that is written so, from 1; 0: there is none.
int LineOfWritten(const std::string& layer, const caffe::NetParameter& net, const TextFormat::ParseInfoTree& tree) {
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

// Line of the layer in the text that `tree` was made of, as it is written or as it was before a split.
int LineOf(const std::string& layer, const caffe::NetParameter& net, const TextFormat::ParseInfoTree& tree) {
  const int line = LineOfWritten(layer, net, tree);
  return line > 0 ? line : LineOfWritten(NameBeforeSplit(layer), net, tree);
}

// Line of the field whose name `fault` begins with, from 1; 0: it is not set in the text that `tree` was made of.
int LineOfFirstField(const std::string& fault, const TextFormat::ParseInfoTree& tree) {
  const std::string name = fault.substr(0, fault.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"));
  const auto* field = caffe::SolverParameter::descriptor()->FindFieldByName(name);
  return field == nullptr ? 0 : tree.GetLocation(field, field->is_repeated() ? 0 : -1).line + 1;
}

}  // namespace

Status AtLayer(const Status& status, const std::string& path) {
  const std::string layer = LayerNamedBy(status.message());
  caffe::NetParameter net;
  TextFormat::ParseInfoTree tree;
  if (status.ok() || layer.empty() || !ReadPlacedText(path, &net, &tree).ok()) return status;
  NameLayersApart(&net);
  const int line = LineOf(layer, net, tree);
  return line == 0 ? status : status.Prepend(Format("%s:%d", path.c_str(), line));
}

Status AtFile(const Status& status, const std::string& path) {
  return status.message().rfind(path + ":", 0) == 0 ? status : status.Prepend(path);
}

Status AtLayer(const Status& status, const caffe::SolverParameter& solver, const std::string& solver_path) {
  const std::string layer = LayerNamedBy(status.message());
  if (status.ok() || layer.empty()) return status;
  if (solver.has_net()) return AtLayer(status, solver.net());
  // The net may have been made of several.
  caffe::SolverParameter read;
  TextFormat::ParseInfoTree tree;
  if (!ReadPlacedText(solver_path, &read, &tree).ok()) return status;
  const NetPlaces places = PlacesOfNets(solver_path, read, &tree);
  for (const auto& [net, of_net] : places.inside) {
    const int line = of_net == nullptr ? 0 : LineOf(layer, *net, *of_net);
    if (line > 0) return status.Prepend(Format("%s:%d", solver_path.c_str(), line));
  }
  for (const std::string& file : places.files) {
    const Status placed = AtLayer(status, file);
    if (placed.message() != status.message()) return placed;
  }
  return status;
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
