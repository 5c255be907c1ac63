// Text is told from bytes by its characters, a net from a solver by what the file can be read as: names say little, as
// old weights are called "x_iter_1000" and nets "x.txt".
#include "checkpoint/upgrade_file.h"

#include "base/format.h"
#include "base/input_file.h"
#include "base/pending_file.h"
#include "base/words.h"
#include "checkpoint/hdf5_file.h"
#include "checkpoint/message_file.h"
#include "proto/place.h"
#include "proto/placed_text.h"
#include "proto/upgrade/upgrade.h"

#include "google/protobuf/text_format.h"
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace hp {
namespace {

using google::protobuf::TextFormat;

constexpr size_t kLookedAt = 4096;

/// Whether a text could begin with these bytes.
bool IsText(const std::string& begin) {
  return std::none_of(begin.begin(), begin.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 32 && c != '\n' && c != '\t' && c != '\r' && c != '\f';
  });
}

StatusOr<bool> BeginsAsText(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
  std::string begin(kLookedAt, '\0');
  const ssize_t got = read(fd, begin.data(), begin.size());
  const int fault = errno;
  close(fd);
  if (got < 0) return InvalidArgument("%s: cannot be read: %s", path.c_str(), strerror(fault));
  return IsText(begin.substr(0, static_cast<size_t>(got)));
}

Status WriteText(const google::protobuf::Message& message, const std::string& to) {
  std::string text;
  if (!TextFormat::PrintToString(message, &text)) return InternalError("cannot print %s", to.c_str());
  return WriteWholeFile(to, text);
}

/// "PATH: had X; Y" or "PATH: was in today's form".
std::string Done(const std::string& to, const char* what, const std::vector<std::string>& forms) {
  return Format("%s: %s, which %s", to.c_str(), what,
                forms.empty() ? "was in today's form" : ("had " + Join(forms, "; ")).c_str());
}

/// Raw values of NVIDIA's Caffe become floats, which every Caffe reads. @param any is set where there are some.
Status UpgradeRawValues(caffe::LayerParameter* layer, bool* any) {
  for (int i = 0; i < layer->blobs_size(); ++i) {
    caffe::BlobProto* const blob = layer->mutable_blobs(i);
    if (!blob->has_raw_data()) continue;
    const StatusOr<Blob> values = TakeBlob(*blob);
    if (!values.ok()) return values.status().Prepend(Format("layer \"%s\" blob %d", layer->name().c_str(), i));
    blob->clear_raw_data();
    blob->clear_raw_data_type();
    blob->mutable_data()->Assign(values->data.begin(), values->data.end());
    *any = true;
  }
  return OkStatus();
}

StatusOr<std::string> UpgradeWeights(const std::string& from, const std::string& to) {
  std::string bytes;
  HP_RETURN_IF_ERROR(ReadMessageFile(from, {}, nullptr, &bytes));
  caffe::NetParameter net;
  if (!net.ParseFromString(bytes)) return DataLoss("%s: not a .caffemodel", from.c_str());
  StatusOr<NetUpgrade> upgrade = UpgradeNet(&net);
  if (!upgrade.ok()) return upgrade.status().Prepend(from);
  if (net.layer().empty()) return DataLoss("%s: not a .caffemodel: it contains no layer", from.c_str());
  bool raw = false;
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    HP_RETURN_IF_ERROR(UpgradeRawValues(&layer, &raw).Prepend(from));
  }
  if (raw) upgrade->forms.emplace_back("raw values of NVIDIA's Caffe");
  if (!net.SerializeToString(&bytes)) {
    return ResourceExhausted("%s: too large for a .caffemodel of today, of which protobuf writes 2 GB", from.c_str());
  }
  HP_RETURN_IF_ERROR(WriteWholeFile(to, bytes));
  return Done(to, "weights", upgrade->forms);
}

StatusOr<std::string> UpgradeNetText(caffe::NetParameter net, const TextFormat::ParseInfoTree& places,
                                     const std::string& from, const std::string& to) {
  HP_ASSIGN_OR_RETURN(const NetUpgrade upgrade, UpgradeNet(&net, PlacesIn(from, &places)));
  if (net.layer_size() == 0) {
    return InvalidArgument("%s: no layer; expected a net or a solver, or the weights of a .caffemodel", from.c_str());
  }
  HP_RETURN_IF_ERROR(WriteText(net, to));
  return Done(to, "a net", upgrade.forms);
}

/// The nets in a solver's own file, and the places of their fields.
std::vector<std::pair<caffe::NetParameter*, const TextFormat::ParseInfoTree*>> NetsInside(
    caffe::SolverParameter* solver, const TextFormat::ParseInfoTree& places) {
  std::vector<std::pair<caffe::NetParameter*, const TextFormat::ParseInfoTree*>> nets;
  const auto add = [&](int number, int index, caffe::NetParameter* net) {
    const auto* const field = caffe::SolverParameter::descriptor()->FindFieldByNumber(number);
    nets.emplace_back(net, places.GetTreeForNested(field, index));
  };
  using Solver = caffe::SolverParameter;
  if (solver->has_net_param()) add(Solver::kNetParamFieldNumber, -1, solver->mutable_net_param());
  if (solver->has_train_net_param()) {
    add(Solver::kTrainNetParamFieldNumber, -1, solver->mutable_train_net_param());
  }
  for (int i = 0; i < solver->test_net_param_size(); ++i) {
    add(Solver::kTestNetParamFieldNumber, i, solver->mutable_test_net_param(i));
  }
  return nets;
}

StatusOr<std::string> UpgradeSolverText(caffe::SolverParameter solver, const TextFormat::ParseInfoTree& places,
                                        const std::string& from, const std::string& to) {
  std::vector<std::string> forms;
  if (solver.has_solver_type()) forms.emplace_back("solver_type instead of type");
  if (solver.has_rampup_interval() || solver.has_rampup_lr()) forms.emplace_back("rampup_interval or rampup_lr");
  if (solver.has_engine()) forms.emplace_back("an engine of a fork of Caffe, which is left out");
  HP_RETURN_IF_ERROR(AtFields(UpgradeSolver(&solver), from));
  for (const auto& [net, of_net] : NetsInside(&solver, places)) {
    HP_ASSIGN_OR_RETURN(const NetUpgrade upgrade, UpgradeNet(net, PlacesIn(from, of_net)));
    forms.insert(forms.end(), upgrade.forms.begin(), upgrade.forms.end());
  }
  HP_RETURN_IF_ERROR(WriteText(solver, to));
  return Done(to, "a solver", forms);
}

/// How far into a file its first fault is, as "PATH:LINE:COLUMN: ..." says it.
int LineOfFault(const Status& status, const std::string& path) {
  const std::string& message = status.message();
  return message.rfind(path + ":", 0) == 0 ? std::atoi(message.c_str() + path.size() + 1) : 0;
}

}  // namespace

StatusOr<std::string> UpgradeFile(const std::string& from, const std::string& to) {
  if (IsHdf5File(from)) return InvalidArgument("%s: HDF5 files have no older form", from.c_str());
  HP_ASSIGN_OR_RETURN(const bool text, BeginsAsText(from));
  if (!text) return UpgradeWeights(from, to);
  caffe::NetParameter net;
  TextFormat::ParseInfoTree places_of_net, places_of_solver;
  const Status as_net = ReadPlacedText(from, &net, &places_of_net);
  if (as_net.ok()) return UpgradeNetText(std::move(net), places_of_net, from, to);
  caffe::SolverParameter solver;
  const Status as_solver = ReadPlacedText(from, &solver, &places_of_solver);
  if (as_solver.ok()) return UpgradeSolverText(std::move(solver), places_of_solver, from, to);
  // What it was meant to be is what it is for longer.
  return LineOfFault(as_solver, from) > LineOfFault(as_net, from) ? as_solver : as_net;
}

}  // namespace hp
