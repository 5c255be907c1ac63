#include "solvers/sgd.h"

#include <cmath>

namespace hp {

SgdCoefficients SgdCoefficientsFor(const caffe::SolverParameter& solver, float rate, float lr_mult, float decay_mult,
                                   float scale) {
  const float decay = solver.weight_decay() * decay_mult;
  const bool l1 = solver.regularization_type() == "L1";
  return {.rate = rate * lr_mult,
          .momentum = solver.momentum(),
          .l2 = l1 ? 0 : decay,
          .l1 = l1 ? decay : 0,
          .gradient_scale = scale / static_cast<float>(solver.iter_size())};
}

float ClipScale(const caffe::SolverParameter& solver, double sum_of_squares) {
  const double norm = std::sqrt(sum_of_squares);
  return solver.clip_gradients() >= 0 && norm > solver.clip_gradients() ? solver.clip_gradients() / norm : 1;
}

}  // namespace hp
