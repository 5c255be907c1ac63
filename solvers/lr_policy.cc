// The rates are computed in double and rounded to float once. Caffe keeps the number of steps of "multistep" as state;
// here it is counted from the iteration, which gives the same rates for increasing stepvalues.
#include "solvers/lr_policy.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace hp {
namespace {

enum class Policy { kFixed, kStep, kExp, kInv, kMultistep, kPoly, kSigmoid };

struct PolicyRule {
  const char* name;
  Policy policy;
  std::vector<const char*> needs;  // fields of SolverParameter
};

const std::vector<PolicyRule>& Rules() {
  static const std::vector<PolicyRule> rules = {
      {"fixed", Policy::kFixed, {}},
      {"step", Policy::kStep, {"gamma", "stepsize"}},
      {"exp", Policy::kExp, {"gamma"}},
      {"inv", Policy::kInv, {"gamma", "power"}},
      {"multistep", Policy::kMultistep, {"gamma", "stepvalue"}},
      {"poly", Policy::kPoly, {"power", "max_iter"}},
      {"sigmoid", Policy::kSigmoid, {"gamma", "stepsize"}},
  };
  return rules;
}

const PolicyRule* FindRule(const std::string& name) {
  for (const PolicyRule& rule : Rules()) {
    if (name == rule.name) return &rule;
  }
  return nullptr;
}

bool IsSet(const caffe::SolverParameter& solver, const char* name) {
  const auto* field = caffe::SolverParameter::descriptor()->FindFieldByName(name);
  const auto* reflection = solver.GetReflection();
  return field->is_repeated() ? reflection->FieldSize(solver, field) > 0 : reflection->HasField(solver, field);
}

// Caffe moves at most one step an iteration, so only increasing values mean the same to it as to us.
Status CheckStepValues(const caffe::SolverParameter& solver) {
  if (solver.stepvalue_size() > 1 && solver.stepvalue(1) <= solver.warmup_iter()) {
    return InvalidArgument("stepvalue: %d is within warmup_iter: %d; expected at most one there", solver.stepvalue(1),
                           solver.warmup_iter());
  }
  for (int i = 0; i < solver.stepvalue_size(); ++i) {
    const int least = i == 0 ? 1 : solver.stepvalue(i - 1) + 1;
    if (solver.stepvalue(i) < least) {
      return InvalidArgument("stepvalue: %d at position %d; expected increasing values of at least 1",
                             solver.stepvalue(i), i + 1);
    }
  }
  return OkStatus();
}

Status CheckForkFields(const caffe::SolverParameter& solver) {
  if (solver.warmup_iter() < 0) {
    return InvalidArgument("warmup_iter: %d; expected at least 0", solver.warmup_iter());
  }
  if (!(solver.warmup_start_lr() >= 0) || std::isinf(solver.warmup_start_lr())) {
    return InvalidArgument("warmup_start_lr: %g; expected a finite number of at least 0", solver.warmup_start_lr());
  }
  if (solver.has_warmup_start_lr() && solver.warmup_iter() == 0) {
    return InvalidArgument("warmup_start_lr: needs warmup_iter, which is missing");
  }
  if (solver.has_min_lr() && !(solver.min_lr() >= 0 && solver.min_lr() <= solver.base_lr())) {
    return InvalidArgument("min_lr: %g; expected at least 0, and at most base_lr", solver.min_lr());
  }
  if (solver.has_min_lr() && solver.lr_policy() != "poly") {
    return InvalidArgument("min_lr: is of lr_policy \"poly\" (NVIDIA's Caffe); \"%s\" has none",
                           solver.lr_policy().c_str());
  }
  return OkStatus();
}

}  // namespace

Status CheckLearningRate(const caffe::SolverParameter& solver) {
  if (!solver.has_lr_policy()) {
    return InvalidArgument("lr_policy: missing; expected fixed, step, exp, inv, multistep, poly or sigmoid");
  }
  const PolicyRule* rule = FindRule(solver.lr_policy());
  if (rule == nullptr) {
    return InvalidArgument("lr_policy: \"%s\" is unknown; expected fixed, step, exp, inv, multistep, poly or sigmoid",
                           solver.lr_policy().c_str());
  }
  for (const char* field : rule->needs) {
    if (!IsSet(solver, field))
      return InvalidArgument("lr_policy: \"%s\" needs %s, which is missing", rule->name, field);
  }
  if (rule->policy == Policy::kStep && solver.stepsize() <= 0) {
    return InvalidArgument("stepsize: %d; expected at least 1", solver.stepsize());
  }
  HP_RETURN_IF_ERROR(CheckForkFields(solver));
  return rule->policy == Policy::kMultistep ? CheckStepValues(solver) : OkStatus();
}

int LearningRateStep(const caffe::SolverParameter& solver, int iter) {
  if (solver.lr_policy() == "step") return iter / solver.stepsize();
  if (solver.lr_policy() != "multistep") return 0;
  return static_cast<int>(
      std::count_if(solver.stepvalue().begin(), solver.stepvalue().end(), [iter](int value) { return value <= iter; }));
}

float LearningRate(const caffe::SolverParameter& solver, int iter) {
  return LearningRate(solver, solver.base_lr(), iter);
}

float LearningRate(const caffe::SolverParameter& solver, float base_lr, int iter) {
  const double base = base_lr, gamma = solver.gamma(), power = solver.power();
  if (iter < solver.warmup_iter()) {
    const double start = solver.warmup_start_lr();
    return start + (base - start) * iter / solver.warmup_iter();
  }
  switch (FindRule(solver.lr_policy())->policy) {
    case Policy::kFixed:
      return base_lr;
    case Policy::kStep:
    case Policy::kMultistep:
      return base * std::pow(gamma, LearningRateStep(solver, iter));
    case Policy::kExp:
      return base * std::pow(gamma, iter);
    case Policy::kInv:
      return base * std::pow(1 + gamma * iter, -power);
    case Policy::kPoly:
      return solver.min_lr() +
             (base - solver.min_lr()) * std::pow(1 - static_cast<double>(iter) / solver.max_iter(), power);
    case Policy::kSigmoid:
      return base / (1 + std::exp(-gamma * (iter - solver.stepsize())));
  }
  return 0;
}

}  // namespace hp
