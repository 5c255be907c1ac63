#pragma once

#include "backend/op.h"
#include "tensor/tensor.h"

#include <cstddef>
#include <memory>

namespace hp {

// Labels come to ops by BatchContext::labels, ahead of the micro-batches. These two carry them to layers that read them
// as an ordinary blob, and back: of any backend, since they pass pointers on. Immutable; executor thread.

/// An op without inputs, whose output is the labels of its rows.
/// @param copy from one tensor to another of its form (Backend::Split of one way). @param labels dense float32.
std::unique_ptr<Op> LabelsToTensor(std::unique_ptr<Op> copy, const TensorDesc& labels);

/// The same op with its labels as input `at`, dense float32, instead of BatchContext::labels. That input has no
/// gradient. Labels that were computed nobody has checked: of those that are out of range is true what the op says.
std::unique_ptr<Op> LabelsFromTensor(std::unique_ptr<Op> op, size_t at);

/// The same op with other labels of the whole batch as BatchContext::batch_labels. @param number of them, from 1 on
/// (BatchContext::more_labels has the first).
std::unique_ptr<Op> WithBatchLabels(std::unique_ptr<Op> op, int number);

}  // namespace hp
