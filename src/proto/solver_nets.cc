#include "proto/solver_nets.h"

#include "base/format.h"
#include "proto/layer_names.h"
#include "proto/net_filter.h"
#include "proto/net_union.h"
#include "proto/placed_text.h"
#include "proto/text.h"

#include "glog/logging.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hp {
namespace {

using caffe::NetParameter;
using caffe::SolverParameter;
using google::protobuf::TextFormat;

/// In Caffe a phase that stands in a state would have the layers of that phase, whatever they are for. @param place of
/// the state, or of its net.
Status CheckPhase(const std::string& place, const caffe::NetState& state, caffe::Phase phase) {
  if (!state.has_phase() || state.phase() == phase) return OkStatus();
  return InvalidArgument("%s: state { phase: %s } of a net that is %s; expected no phase, or %s", place.c_str(),
                         caffe::Phase_Name(state.phase()).c_str(), phase == caffe::TRAIN ? "trained" : "tested",
                         caffe::Phase_Name(phase).c_str());
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// A solver's file, and where its fields stand in it. Nets inside are checked and brought into today's form one by one.
class SolverText {
 public:
  SolverText(const std::string& path, const TextFormat::ParseInfoTree& places) : path_(path), places_(places) {}

  const std::string& path() const { return path_; }
  /// "PATH:LINE". @param index -1: the field is not repeated.
  std::string PlaceOf(int field, int index = -1) const { return hp::PlaceOf(path_, &places_, FieldOf(field), index); }
  Status Complete(int field, int index, NetParameter* net) const {
    return CompleteNet(path_, places_.GetTreeForNested(FieldOf(field), index), net);
  }
  /// A net's file, as it is written, or beside the solver.
  StatusOr<std::string> FindNet(int field, int index, const std::string& net) const {
    if (IsFile(net)) return net;
    const std::string beside = PathBeside(path_, net);
    if (IsFile(beside)) return beside;
    return NotFound("%s: %s \"%s\": no such file: %s", PlaceOf(field, index).c_str(), FieldOf(field)->name().c_str(),
                    net.c_str(), (beside == net ? beside : net + " or " + beside).c_str());
  }

 private:
  static const google::protobuf::FieldDescriptor* FieldOf(int field) {
    return SolverParameter::descriptor()->FindFieldByNumber(field);
  }

  const std::string& path_;
  const TextFormat::ParseInfoTree& places_;
};

/// A net's layers of one phase. @param place of the net.
StatusOr<NetParameter> OfPhase(NetParameter net, const std::string& place, caffe::Phase phase,
                               const caffe::NetState& more) {
  HP_RETURN_IF_ERROR(CheckPhase(place, net.state(), phase));
  net.mutable_state()->MergeFrom(more);
  return FilterNet(net, phase);
}

/// A net, and where it stands, or is named.
struct PlacedNet {
  std::string place;
  NetParameter net;
};

bool HasApart(const SolverParameter& solver) {
  return solver.has_train_net() || solver.has_train_net_param() || solver.test_net_size() > 0 ||
         solver.test_net_param_size() > 0 || solver.has_train_state() || solver.test_state_size() > 0;
}

Status CheckCounts(const SolverText& text, const SolverParameter& solver) {
  const int train = solver.has_net() + solver.has_net_param() + solver.has_train_net() + solver.has_train_net_param();
  if (train != 1) {
    const int last = solver.has_train_net_param() ? SolverParameter::kTrainNetParamFieldNumber
                     : solver.has_train_net()     ? SolverParameter::kTrainNetFieldNumber
                                                  : SolverParameter::kNetParamFieldNumber;
    return InvalidArgument(
        "%s: the solver names %s; expected one of net: \"...\", net_param { ... }, train_net and "
        "train_net_param",
        train == 0 ? text.path().c_str() : text.PlaceOf(last).c_str(),
        train == 0 ? "no net to train" : "several nets to train");
  }
  const int tests = solver.test_net_size() + solver.test_net_param_size();
  const bool generic = solver.has_net() || solver.has_net_param();
  if (generic ? solver.test_iter_size() < tests : solver.test_iter_size() != tests) {
    const int field = solver.test_iter_size() > 0  ? SolverParameter::kTestIterFieldNumber
                      : solver.test_net_size() > 0 ? SolverParameter::kTestNetFieldNumber
                                                   : SolverParameter::kTestNetParamFieldNumber;
    return InvalidArgument("%s: %d test_iter for %d test_net; expected one for each", text.PlaceOf(field, 0).c_str(),
                           solver.test_iter_size(), tests);
  }
  if (solver.test_state_size() > 0 && solver.test_state_size() != std::max(tests, solver.test_iter_size())) {
    return InvalidArgument("%s: %d test_state for %d tests; expected none, or one for each",
                           text.PlaceOf(SolverParameter::kTestStateFieldNumber, 0).c_str(), solver.test_state_size(),
                           std::max(tests, solver.test_iter_size()));
  }
  return OkStatus();
}

/// That states have no other phase than their nets'.
Status CheckStates(const SolverText& text, const SolverParameter& solver) {
  HP_RETURN_IF_ERROR(
      CheckPhase(text.PlaceOf(SolverParameter::kTrainStateFieldNumber), solver.train_state(), caffe::TRAIN));
  for (int i = 0; i < solver.test_state_size(); ++i) {
    HP_RETURN_IF_ERROR(
        CheckPhase(text.PlaceOf(SolverParameter::kTestStateFieldNumber, i), solver.test_state(i), caffe::TEST));
  }
  return OkStatus();
}

/// The nets that are tested, before their phase and states: those that the solver names, then as many times the one of
/// both phases as there are more test_iter; one at least, which may be empty.
/// Source: Caffe, src/caffe/solver.cpp, Solver::InitTestNets.
StatusOr<std::vector<PlacedNet>> TestNets(const SolverText& text, const PlacedNet& generic, SolverParameter* solver) {
  std::vector<PlacedNet> tests;
  for (int i = 0; i < solver->test_net_param_size(); ++i) {
    constexpr int kField = SolverParameter::kTestNetParamFieldNumber;
    HP_RETURN_IF_ERROR(text.Complete(kField, i, solver->mutable_test_net_param(i)));
    tests.push_back({text.PlaceOf(kField, i), solver->test_net_param(i)});
  }
  for (int i = 0; i < solver->test_net_size(); ++i) {
    HP_ASSIGN_OR_RETURN(const std::string file,
                        text.FindNet(SolverParameter::kTestNetFieldNumber, i, solver->test_net(i)));
    HP_ASSIGN_OR_RETURN(NetParameter test, ReadNet(file));
    tests.push_back({file, std::move(test)});
  }
  while (tests.empty() || static_cast<int>(tests.size()) < solver->test_iter_size()) tests.push_back(generic);
  return tests;
}

/// Forgets tests of no batches, of which Caffe computes and prints nothing. @param tests as many as there are, or none.
void DropEmptyTests(const std::string& path, SolverParameter* solver, std::vector<PlacedNet>* tests) {
  int kept = 0;
  for (int i = 0; i < solver->test_iter_size(); ++i) {
    if (solver->test_iter(i) == 0) {
      LOG(WARNING) << path << ": test_iter: 0, so " << (solver->test_iter_size() == 1 ? "there is no test" : "test ")
                   << (solver->test_iter_size() == 1 ? "" : std::to_string(i) + " is left out");
      continue;
    }
    solver->set_test_iter(kept, solver->test_iter(i));
    if (i < solver->test_state_size()) solver->mutable_test_state()->SwapElements(kept, i);
    if (i < static_cast<int>(tests->size())) std::swap((*tests)[kept], (*tests)[i]);
    ++kept;
  }
  if (kept == solver->test_iter_size()) return;
  solver->mutable_test_iter()->Truncate(kept);
  while (solver->test_state_size() > kept) solver->mutable_test_state()->RemoveLast();
  if (static_cast<int>(tests->size()) > kept) tests->resize(kept);
}

void UseUp(NetParameter net, SolverParameter* solver) {
  solver->clear_net();
  solver->clear_train_net();
  solver->clear_test_net();
  solver->clear_train_net_param();
  solver->clear_test_net_param();
  solver->clear_train_state();
  solver->clear_test_state();
  *solver->mutable_net_param() = std::move(net);
}

/// Of the net of both: training, and tests if there are any.
Status CheckGenericPhase(const std::string& place, const NetParameter& net, const SolverParameter& solver) {
  HP_RETURN_IF_ERROR(CheckPhase(place, net.state(), caffe::TRAIN));
  return solver.test_iter_size() > 0 ? CheckPhase(place, net.state(), caffe::TEST) : OkStatus();
}

}  // namespace

Status UniteNets(const std::string& path, const TextFormat::ParseInfoTree& places, SolverParameter* solver) {
  const SolverText text(path, places);
  HP_RETURN_IF_ERROR(CheckCounts(text, *solver));
  HP_RETURN_IF_ERROR(CheckStates(text, *solver));
  if (solver->has_net()) {
    HP_ASSIGN_OR_RETURN(*solver->mutable_net(), text.FindNet(SolverParameter::kNetFieldNumber, -1, solver->net()));
  }
  if (solver->has_net_param()) {
    HP_RETURN_IF_ERROR(text.Complete(SolverParameter::kNetParamFieldNumber, -1, solver->mutable_net_param()));
  }
  std::vector<PlacedNet> tests;
  if (!HasApart(*solver)) {
    DropEmptyTests(path, solver, &tests);
    return CheckGenericPhase(text.PlaceOf(SolverParameter::kNetParamFieldNumber), solver->net_param(), *solver);
  }

  PlacedNet generic = {text.PlaceOf(SolverParameter::kNetParamFieldNumber), solver->net_param()};
  if (solver->has_net()) {
    generic.place = solver->net();
    HP_ASSIGN_OR_RETURN(generic.net, ReadNet(solver->net()));
  }
  PlacedNet train = generic;
  if (solver->has_train_net()) {
    HP_ASSIGN_OR_RETURN(train.place, text.FindNet(SolverParameter::kTrainNetFieldNumber, -1, solver->train_net()));
    HP_ASSIGN_OR_RETURN(train.net, ReadNet(train.place));
  }
  if (solver->has_train_net_param()) {
    constexpr int kField = SolverParameter::kTrainNetParamFieldNumber;
    HP_RETURN_IF_ERROR(text.Complete(kField, -1, solver->mutable_train_net_param()));
    train = {text.PlaceOf(kField), solver->train_net_param()};
  }
  HP_ASSIGN_OR_RETURN(tests, TestNets(text, generic, solver));
  DropEmptyTests(path, solver, &tests);
  HP_ASSIGN_OR_RETURN(NetParameter trained,
                      OfPhase(std::move(train.net), train.place, caffe::TRAIN, solver->train_state()));
  bool has_tests = false;
  std::vector<NetParameter> tested;
  for (int i = 0; i < static_cast<int>(tests.size()); ++i) {
    has_tests |= tests[i].net.layer_size() > 0;
    const caffe::NetState more = i < solver->test_state_size() ? solver->test_state(i) : caffe::NetState();
    if (i >= solver->test_iter_size()) tests[i].net.mutable_state()->clear_phase();  // nobody runs it
    HP_ASSIGN_OR_RETURN(NetParameter test, OfPhase(std::move(tests[i].net), tests[i].place, caffe::TEST, more));
    NameLayersApart(&test);  // again: states may have brought layers of one name together
    tested.push_back(std::move(test));
  }
  NameLayersApart(&trained);
  NetParameter all = UnionOf(trained, has_tests ? tested : std::vector<NetParameter>());
  UseUp(std::move(all), solver);
  return OkStatus();
}

StatusOr<NetParameter> NetOfSolver(const SolverParameter& solver) {
  if (solver.has_net_param()) return solver.net_param();
  HP_ASSIGN_OR_RETURN(NetParameter net, ReadNet(solver.net()));
  HP_RETURN_IF_ERROR(CheckGenericPhase(solver.net(), net, solver));
  return net;
}

}  // namespace hp
