// The rates are computed in double and rounded to float once. Caffe keeps the number of steps of "multistep" as state;
// here it is counted from the iteration: Caffe takes at most one step an iteration, and the values in the order of the
// file, so the time of each step follows from that of the one before.
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
  std::vector<const char*> fields;  // of SolverParameter, that the rate is computed from; 0 where one is missing
};

const std::vector<PolicyRule>& Rules() {
  static const std::vector<PolicyRule> rules = {
      {"fixed", Policy::kFixed, {}},
      {"step", Policy::kStep, {"gamma"}},
      {"exp", Policy::kExp, {"gamma"}},
      {"inv", Policy::kInv, {"gamma", "power"}},
      {"multistep", Policy::kMultistep, {"gamma", "stepvalue"}},
      {"poly", Policy::kPoly, {"power"}},
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

bool IsUsed(const PolicyRule& rule, const std::string& field) {
  return std::any_of(rule.fields.begin(), rule.fields.end(), [&field](const char* used) { return field == used; });
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
  if (rule->policy == Policy::kStep && !solver.has_stepsize()) {
    return InvalidArgument("lr_policy: \"%s\" needs stepsize, which is missing", rule->name);
  }
  if (rule->policy == Policy::kStep && solver.stepsize() <= 0) {
    return InvalidArgument("stepsize: %d; expected at least 1", solver.stepsize());
  }
  // "sigmoid" falls only with a negative gamma.
  if (rule->policy != Policy::kSigmoid && IsUsed(*rule, "gamma") && !(solver.gamma() >= 0)) {
    return InvalidArgument("gamma: %g; expected at least 0", solver.gamma());
  }
  return CheckForkFields(solver);
}

std::vector<std::string> LearningRateWarnings(const caffe::SolverParameter& solver) {
  std::vector<std::string> lines;
  const PolicyRule* const rule = FindRule(solver.lr_policy());
  if (rule == nullptr) return lines;
  for (const std::string field : rule->fields) {
    if (IsSet(solver, field.c_str())) continue;
    const std::string value = field == "stepvalue" ? "no step is taken" : "it is 0";
    lines.push_back(field + ": missing, so " + value + ", as in Caffe; lr_policy: \"" + rule->name + "\" goes by it");
  }
  const auto& values = solver.stepvalue();
  if (rule->policy == Policy::kMultistep && !std::is_sorted(values.begin(), values.end())) {
    lines.push_back("stepvalue: not in increasing order; as in Caffe, a step waits for those before it");
  }
  return lines;
}

int LearningRateStep(const caffe::SolverParameter& solver, int iter) {
  if (solver.lr_policy() == "step") return iter / solver.stepsize();
  if (solver.lr_policy() != "multistep") return 0;
  int64_t earliest = solver.warmup_iter();  // of the next step; none is taken while the rate warms up
  int steps = 0;
  for (const int64_t value : solver.stepvalue()) {
    if (std::max(earliest, value) > iter) break;
    earliest = std::max(earliest, value) + 1;
    ++steps;
  }
  return steps;
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
      if (solver.max_iter() == 0) return base_lr;  // nothing is trained
      return solver.min_lr() +
             (base - solver.min_lr()) * std::pow(1 - static_cast<double>(iter) / solver.max_iter(), power);
    case Policy::kSigmoid:
      return base / (1 + std::exp(-gamma * (iter - solver.stepsize())));
  }
  return 0;
}

}  // namespace hp
