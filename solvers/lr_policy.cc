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
  for (int i = 0; i < solver.stepvalue_size(); ++i) {
    const int least = i == 0 ? 1 : solver.stepvalue(i - 1) + 1;
    if (solver.stepvalue(i) < least) {
      return InvalidArgument("stepvalue: %d at position %d; expected increasing values of at least 1",
                             solver.stepvalue(i), i + 1);
    }
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
      return base * std::pow(1 - static_cast<double>(iter) / solver.max_iter(), power);
    case Policy::kSigmoid:
      return base / (1 + std::exp(-gamma * (iter - solver.stepsize())));
  }
  return 0;
}

}  // namespace hp
