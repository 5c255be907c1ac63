#include "proto/place.h"

#include "proto/net_filter.h"
#include "proto/placed_text.h"
#include "proto/upgrade/upgrade.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <vector>

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

// AtLayer for the first of some layers that the message names. @param index of the phase.
Status AtNamed(const Status& status, const caffe::NetParameter& net, const std::vector<int>& layers, int index) {
  const std::string name = LayerNamedBy(status.message());
  if (status.ok() || name.empty()) return status;
  const auto named = [&](int i) { return net.layer(i).name() == name; };
  const auto found = std::find_if(layers.begin(), layers.end(), named);
  if (found == layers.end() || net.layer(*found).place_size() == 0) return status;
  const caffe::LayerParameter& layer = net.layer(*found);
  return status.Prepend(layer.place(index < layer.place_size() ? index : 0));
}

// Line of a solver's field, from 1; 0: it is not set in the text that `solver` and `tree` were made of. Of a field with
// several values it is that of the one which the fault names: "test_iter: -1; ...".
int LineOfField(const std::string& name, const std::string& fault, const caffe::SolverParameter& solver,
                const TextFormat::ParseInfoTree& tree) {
  const auto* field = caffe::SolverParameter::descriptor()->FindFieldByName(name);
  if (field == nullptr) return 0;
  if (!field->is_repeated()) return tree.GetLocation(field, -1).line + 1;
  int named = 0;
  for (int i = solver.GetReflection()->FieldSize(solver, field) - 1; i >= 0; --i) {
    std::string value;
    TextFormat::PrintFieldValueToString(solver, field, i, &value);
    if (fault.starts_with(name + ": " + value + ";")) named = i;
  }
  return tree.GetLocation(field, named).line + 1;
}

// The fault with the place of the field whose name it begins with, under the name that the file has for it.
std::string AtFirstField(std::string fault, const std::string& path, const caffe::SolverParameter& solver,
                         const TextFormat::ParseInfoTree& tree) {
  const std::string name = fault.substr(0, fault.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"));
  int line = LineOfField(name, fault, solver, tree);
  if (const std::string old = OldNameOf(name); line == 0 && !old.empty()) {
    line = LineOfField(old, fault, solver, tree);
    if (line > 0) fault.replace(0, name.size(), old);
  }
  return path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + fault;
}

}  // namespace

Status AtLayer(const Status& status, const caffe::LayerParameter& layer) {
  return layer.place_size() == 0 ? status : status.Prepend(layer.place(0));
}

Status AtLayer(const Status& status, const caffe::NetParameter& net, Phase phase) {
  return AtNamed(status, net, LayersOf(net, phase), phase.index());
}

Status AtLayer(const Status& status, const caffe::NetParameter& net) {
  std::vector<int> all(net.layer_size());
  std::iota(all.begin(), all.end(), 0);
  return AtNamed(status, net, all, 0);
}

Status AtFields(const Status& status, const std::string& solver_path) {
  if (status.ok()) return status;
  caffe::SolverParameter read;
  TextFormat::ParseInfoTree tree;
  const bool known = ReadPlacedText(solver_path, &read, &tree).ok();
  std::istringstream faults(status.message());
  std::string message;
  for (std::string fault; std::getline(faults, fault);) {
    message += (message.empty() ? "" : "\n") +
               (known ? AtFirstField(fault, solver_path, read, tree) : solver_path + ": " + fault);
  }
  return Status(status.code(), message);
}

}  // namespace hp
