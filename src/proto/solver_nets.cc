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

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// As it is written, or beside the solver.
StatusOr<std::string> FindNet(const std::string& path, const char* field, const std::string& net) {
  if (IsFile(net)) return net;
  const std::string beside = PathBeside(path, net);
  if (IsFile(beside)) return beside;
  return NotFound("%s: %s \"%s\": no such file: %s", path.c_str(), field, net.c_str(),
                  (beside == net ? beside : net + " or " + beside).c_str());
}

/// Nets inside the solver's file are checked and brought into today's form one by one.
class InnerNets {
 public:
  InnerNets(const std::string& path, const TextFormat::ParseInfoTree& places) : path_(path), places_(places) {}

  /// @param index -1: the field is not repeated.
  Status Complete(int field, int index, NetParameter* net) const {
    const auto* const descriptor = SolverParameter::descriptor()->FindFieldByNumber(field);
    return CompleteNet(path_, places_.GetTreeForNested(descriptor, index), net);
  }

 private:
  const std::string& path_;
  const TextFormat::ParseInfoTree& places_;
};

/// A net's layers of one phase.
NetParameter OfPhase(NetParameter net, caffe::Phase phase, const caffe::NetState& more) {
  net.mutable_state()->MergeFrom(more);
  return FilterNet(net, phase);
}

bool HasApart(const SolverParameter& solver) {
  return solver.has_train_net() || solver.has_train_net_param() || solver.test_net_size() > 0 ||
         solver.test_net_param_size() > 0 || solver.has_train_state() || solver.test_state_size() > 0;
}

Status CheckCounts(const std::string& path, const SolverParameter& solver) {
  const int train = solver.has_net() + solver.has_net_param() + solver.has_train_net() + solver.has_train_net_param();
  if (train != 1) {
    return InvalidArgument(
        "%s: the solver names %s; expected one of net: \"...\", net_param { ... }, train_net and "
        "train_net_param",
        path.c_str(), train == 0 ? "no net to train" : "several nets to train");
  }
  const int tests = solver.test_net_size() + solver.test_net_param_size();
  const bool generic = solver.has_net() || solver.has_net_param();
  if (generic ? solver.test_iter_size() < tests : solver.test_iter_size() != tests) {
    return InvalidArgument("%s: %d test_iter for %d test_net; expected one for each", path.c_str(),
                           solver.test_iter_size(), tests);
  }
  if (solver.test_state_size() > 0 && solver.test_state_size() != std::max(tests, solver.test_iter_size())) {
    return InvalidArgument("%s: %d test_state for %d tests; expected none, or one for each", path.c_str(),
                           solver.test_state_size(), std::max(tests, solver.test_iter_size()));
  }
  return OkStatus();
}

/// The nets that are tested, before their phase and states: those that the solver names, then as many times the one of
/// both phases as there are more test_iter; one at least, which may be empty.
/// Source: Caffe, src/caffe/solver.cpp, Solver::InitTestNets.
StatusOr<std::vector<NetParameter>> TestNets(const std::string& path, const InnerNets& inner,
                                             const NetParameter& generic, SolverParameter* solver) {
  std::vector<NetParameter> tests;
  for (int i = 0; i < solver->test_net_param_size(); ++i) {
    HP_RETURN_IF_ERROR(inner.Complete(SolverParameter::kTestNetParamFieldNumber, i, solver->mutable_test_net_param(i)));
    tests.push_back(solver->test_net_param(i));
  }
  for (const std::string& net : solver->test_net()) {
    HP_ASSIGN_OR_RETURN(const std::string file, FindNet(path, "test_net", net));
    HP_ASSIGN_OR_RETURN(NetParameter test, ReadNet(file));
    tests.push_back(std::move(test));
  }
  while (tests.empty() || static_cast<int>(tests.size()) < solver->test_iter_size()) tests.push_back(generic);
  return tests;
}

/// Forgets tests of no batches, of which Caffe computes and prints nothing. @param tests as many as there are, or none.
void DropEmptyTests(const std::string& path, SolverParameter* solver, std::vector<NetParameter>* tests) {
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

}  // namespace

Status UniteNets(const std::string& path, const TextFormat::ParseInfoTree& places, SolverParameter* solver) {
  HP_RETURN_IF_ERROR(CheckCounts(path, *solver));
  const InnerNets inner(path, places);
  if (solver->has_net()) {
    HP_ASSIGN_OR_RETURN(*solver->mutable_net(), FindNet(path, "net", solver->net()));
  }
  if (solver->has_net_param()) {
    HP_RETURN_IF_ERROR(inner.Complete(SolverParameter::kNetParamFieldNumber, -1, solver->mutable_net_param()));
  }
  std::vector<NetParameter> tests;
  if (!HasApart(*solver)) {
    DropEmptyTests(path, solver, &tests);
    return OkStatus();
  }

  NetParameter generic = solver->net_param();
  if (solver->has_net()) {
    HP_ASSIGN_OR_RETURN(generic, ReadNet(solver->net()));
  }
  NetParameter train = generic;
  if (solver->has_train_net()) {
    HP_ASSIGN_OR_RETURN(const std::string file, FindNet(path, "train_net", solver->train_net()));
    HP_ASSIGN_OR_RETURN(train, ReadNet(file));
  }
  if (solver->has_train_net_param()) {
    HP_RETURN_IF_ERROR(
        inner.Complete(SolverParameter::kTrainNetParamFieldNumber, -1, solver->mutable_train_net_param()));
    train = solver->train_net_param();
  }
  HP_ASSIGN_OR_RETURN(tests, TestNets(path, inner, generic, solver));
  DropEmptyTests(path, solver, &tests);
  train = OfPhase(std::move(train), caffe::TRAIN, solver->train_state());
  bool has_tests = false;
  for (int i = 0; i < static_cast<int>(tests.size()); ++i) {
    has_tests |= tests[i].layer_size() > 0;
    const caffe::NetState more = i < solver->test_state_size() ? solver->test_state(i) : caffe::NetState();
    tests[i] = OfPhase(std::move(tests[i]), caffe::TEST, more);
    NameLayersApart(&tests[i]);  // again: states may have brought layers of one name together
  }
  NameLayersApart(&train);
  HP_ASSIGN_OR_RETURN(NetParameter all, UnionOf(train, has_tests ? tests : std::vector<NetParameter>()));
  UseUp(std::move(all), solver);
  return OkStatus();
}

}  // namespace hp
