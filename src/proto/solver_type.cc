#include "proto/solver_type.h"

namespace hp {

int HistoriesOf(const caffe::SolverParameter& solver) {
  return solver.type() == "AdaDelta" || solver.type() == "Adam" ? 2 : 1;
}

}  // namespace hp
