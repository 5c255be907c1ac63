#include "solvers/update_rule.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

/// Both of Adam's moments begin with 0, so the first ones are too small.
float MomentCorrection(const caffe::SolverParameter& solver, int64_t clock) {
  const auto t = static_cast<double>(clock + 1);
  const double first = solver.momentum(), second = solver.momentum2();
  return static_cast<float>(std::sqrt(1 - std::pow(second, t)) / (1 - std::pow(first, t)));
}

}  // namespace

UpdateCoefficients UpdateCoefficientsFor(const caffe::SolverParameter& solver, int64_t clock, float rate, float lr_mult,
                                         float decay_mult, float scale) {
  const float decay = solver.weight_decay() * decay_mult;
  const bool l1 = solver.regularization_type() == "L1";
  UpdateCoefficients coefficients = {.rate = rate * lr_mult,
                                     .keep = solver.momentum(),
                                     .l2 = l1 ? 0 : decay,
                                     .l1 = l1 ? decay : 0,
                                     .gradient_scale = scale / static_cast<float>(solver.iter_size()),
                                     .delta = solver.delta()};
  const std::string& type = solver.type();
  if (type == "Nesterov") coefficients.rule = UpdateRule::kNesterov;
  if (type == "AdaGrad" || type == "RMSProp") {
    coefficients.rule = UpdateRule::kSquares;
    coefficients.keep = type == "AdaGrad" ? 1 : solver.rms_decay();
  }
  if (type == "AdaDelta") coefficients.rule = UpdateRule::kAdaDelta;
  if (type == "Adam") {
    coefficients.rule = UpdateRule::kAdam;
    coefficients.keep2 = solver.momentum2();
    coefficients.rate *= MomentCorrection(solver, clock);
  }
  return coefficients;
}

float LarcRate(const caffe::SolverParameter& solver, float rate, double gradient_squares, double value_squares,
               double clip) {
  const double gradient = clip * std::sqrt(gradient_squares) / solver.iter_size(), values = std::sqrt(value_squares);
  const double ratio = values > 0 && gradient > 0 ? solver.larc_eta() * values / gradient : 1;
  return static_cast<float>(solver.larc_policy() == "clip" ? std::min<double>(rate, ratio) : rate * ratio);
}

UpdateCoefficients AverageCoefficients(const caffe::SolverParameter& solver, float keeps) {
  return {.keep = static_cast<float>(std::pow(static_cast<double>(keeps), solver.iter_size())),
          .rule = UpdateRule::kAverage};
}

}  // namespace hp
