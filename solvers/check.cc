#include "solvers/check.h"

#include "base/format.h"
#include "proto/finite.h"
#include "proto/solver_type.h"
#include "solvers/lr_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace hp {
namespace {

// Collects faults, one line each.
class Faults {
 public:
  void Add(const std::string& line) { lines_ += (lines_.empty() ? "" : "\n") + line; }
  void AddIf(bool wrong, const std::string& line) {
    if (wrong) Add(line);
  }
  bool none() const { return lines_.empty(); }
  Status ToStatus() const { return lines_.empty() ? OkStatus() : InvalidArgument("%s", lines_.c_str()); }

 private:
  std::string lines_;
};

/// Of an average that keeps it of itself.
void CheckShare(const char* field, float value, Faults* faults) {
  faults->AddIf(!(value >= 0 && value < 1), Format("%s: %g; expected at least 0, and less than 1", field, value));
}

void CheckType(const caffe::SolverParameter& solver, Faults* faults) {
  constexpr std::array<std::string_view, 6> kTypes = {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"};
  const std::string& type = solver.type();
  const bool squares = type == "AdaGrad" || type == "RMSProp", two = HistoriesOf(solver) == 2;
  faults->AddIf(
      std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end(),
      "type: \"" + type + "\" is not a solver type; expected SGD, Nesterov, AdaGrad, RMSProp, AdaDelta or Adam");
  // As in Caffe, whose one history is of momentum, or of squares.
  faults->AddIf(squares && solver.momentum() != 0,
                Format("momentum: %g; expected none, since %s has no momentum", solver.momentum(), type.c_str()));
  faults->AddIf((squares || type == "Adam") && !(solver.delta() >= 0),
                Format("delta: %g; expected at least 0", solver.delta()));
  // With 0 it would never move: its steps are as large as the last ones, which begin with delta.
  faults->AddIf(type == "AdaDelta" && !(solver.delta() > 0),
                Format("delta: %g; expected more than 0, since AdaDelta begins with it", solver.delta()));
  if (type == "RMSProp") CheckShare("rms_decay", solver.rms_decay(), faults);
  if (two) CheckShare("momentum", solver.momentum(), faults);
  if (type == "Adam") CheckShare("momentum2", solver.momentum2(), faults);
}

void CheckNumber(const char* field, float value, Faults* faults) {
  faults->AddIf(!(value >= 0) || std::isinf(value),
                Format("%s: %g; expected a finite number of at least 0", field, value));
}

void CheckNumbers(const caffe::SolverParameter& solver, Faults* faults) {
  if (HistoriesOf(solver) == 1) CheckNumber("momentum", solver.momentum(), faults);
  faults->AddIf(!std::isfinite(solver.clip_gradients()),
                Format("clip_gradients: %g; expected a norm, or -1 for none", solver.clip_gradients()));
  faults->AddIf(solver.max_iter() < 0, Format("max_iter: %d; expected at least 0", solver.max_iter()));
  faults->AddIf(solver.iter_size() < 1, Format("iter_size: %d; expected at least 1", solver.iter_size()));
  faults->AddIf(solver.display() < 0, Format("display: %d; expected at least 0", solver.display()));
  faults->AddIf(solver.average_loss() < 1, Format("average_loss: %d; expected at least 1", solver.average_loss()));
  // As in Caffe, which looks at it where there is something to do.
  const bool decays = solver.weight_decay() != 0;
  faults->AddIf(decays && solver.regularization_type() != "L1" && solver.regularization_type() != "L2",
                "regularization_type: \"" + solver.regularization_type() + "\"; expected L1 or L2");
}

void CheckLarc(const caffe::SolverParameter& solver, Faults* faults) {
  faults->AddIf(!solver.has_larc() && (solver.has_larc_policy() || solver.has_larc_eta()),
                "larc: missing; larc_policy and larc_eta need it");
  faults->AddIf(solver.larc_policy() != "scale" && solver.larc_policy() != "clip",
                "larc_policy: \"" + solver.larc_policy() + "\"; expected scale or clip");
  faults->AddIf(!(solver.larc_eta() > 0) || std::isinf(solver.larc_eta()),
                Format("larc_eta: %g; expected a finite number above 0", solver.larc_eta()));
}

void CheckNets(const caffe::SolverParameter& solver, Faults* faults) {
  faults->AddIf(!solver.has_net() && !solver.has_net_param(), "net: missing; expected the file of the net");
}

void CheckTests(const caffe::SolverParameter& solver, Faults* faults) {
  faults->AddIf(solver.test_interval() < 0, Format("test_interval: %d; expected at least 0", solver.test_interval()));
  faults->AddIf(solver.test_interval() == 0 && solver.test_iter_size() > 0,
                "test_interval: missing; test_iter needs it");
  for (int iterations : solver.test_iter()) {
    faults->AddIf(iterations < 1, Format("test_iter: %d; expected at least 1, or 0 in a file: no test", iterations));
  }
}

void CheckSnapshots(const caffe::SolverParameter& solver, Faults* faults) {
  faults->AddIf(solver.snapshot() < 0, Format("snapshot: %d; expected at least 0", solver.snapshot()));
  faults->AddIf(solver.snapshot() > 0 && solver.snapshot_prefix().empty(),
                "snapshot_prefix: missing; snapshot needs it");
}

/// The fields that nothing else has said something of: those that the solver's type or rate policy does not use, too.
void CheckFinite(const caffe::SolverParameter& solver, Faults* faults) {
  caffe::SolverParameter own = solver;
  own.clear_net_param();  // has layers, which are named otherwise
  own.clear_train_net_param();
  own.clear_test_net_param();
  const std::string field = NonFiniteField(own);
  if (!field.empty() && faults->none()) faults->Add(field + "; expected a finite number");
}

}  // namespace

Status CheckSolver(const caffe::SolverParameter& solver) {
  Faults faults;
  CheckType(solver, &faults);
  CheckNumbers(solver, &faults);
  CheckLarc(solver, &faults);
  if (Status rate = CheckLearningRate(solver); !rate.ok()) faults.Add(rate.message());
  CheckNets(solver, &faults);
  CheckTests(solver, &faults);
  CheckSnapshots(solver, &faults);
  CheckFinite(solver, &faults);
  return faults.ToStatus();
}

std::vector<std::string> SolverWarnings(const caffe::SolverParameter& solver) {
  std::vector<std::string> lines;
  if (solver.debug_info()) {
    lines.push_back(
        "debug_info: true has no effect: the means of blobs and gradients that Caffe prints are not computed; hpnode "
        "--trace shows where time goes");
  }
  if (!solver.layer_wise_reduce()) {
    lines.push_back("layer_wise_reduce: false has no effect: a layer's gradient is summed as soon as it is there");
  }
  if (solver.has_device_id()) {
    lines.push_back("device_id: " + std::to_string(solver.device_id()) +
                    " has no effect: a node's `device` in the table, or hptrain --gpu, says where it computes");
  }
  if (solver.snapshot_diff()) {
    lines.push_back("snapshot_diff: true has no effect: snapshots have the weights, and no gradients beside them");
  }
  if (!solver.has_max_iter()) lines.push_back("max_iter: missing, so it is 0, as in Caffe: nothing is trained");
  if (!solver.has_base_lr()) lines.push_back("base_lr: missing, so it is 0, as in Caffe: no weight changes");
  if (solver.base_lr() < 0) {
    lines.push_back(Format("base_lr: %g is negative, so the loss is climbed, as in Caffe", solver.base_lr()));
  }
  if (solver.weight_decay() < 0) {
    lines.push_back(Format("weight_decay: %g is negative, so weights grow, as in Caffe", solver.weight_decay()));
  }
  for (const std::string& line : LearningRateWarnings(solver)) lines.push_back(line);
  return lines;
}

}  // namespace hp
