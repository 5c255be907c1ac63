#pragma once

#include "backend/op.h"

namespace hp {

/// An op whose outputs have no gradient.
class ForwardOnlyOp : public Op {
 public:
  void BackwardInput(const OpArgs&) final {}
  bool backward_reads_input() const final { return false; }
  bool backward_reads_output() const final { return false; }
};

}  // namespace hp
