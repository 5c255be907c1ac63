#include "solvers/update_rule.h"

#include <cmath>

namespace hp {

UpdateCoefficients UpdateCoefficientsFor(const caffe::SolverParameter& solver, float rate, float lr_mult,
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
  return coefficients;
}

UpdateCoefficients AverageCoefficients(const caffe::SolverParameter& solver, float keeps) {
  return {.keep = static_cast<float>(std::pow(static_cast<double>(keeps), solver.iter_size())),
          .rule = UpdateRule::kAverage};
}

float ClipScale(const caffe::SolverParameter& solver, double sum_of_squares) {
  const double norm = std::sqrt(sum_of_squares);
  return solver.clip_gradients() >= 0 && norm > solver.clip_gradients() ? solver.clip_gradients() / norm : 1;
}

}  // namespace hp
