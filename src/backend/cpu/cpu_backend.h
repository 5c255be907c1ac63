#pragma once

#include "backend/backend.h"

namespace hp {

/// Makes ops for this host's cores; Backend (backend/backend.h) says what each computes. Each method is defined beside
/// its op: Pooling in pooling.cc. An op's layouts, saved and scratch sizes are fixed when it is made. The backend has
/// no state, so ops of several executors share nothing. Any thread; the ops themselves are for the executor thread.
class CpuBackend final : public Backend {
 public:
  StatusOr<OpPtr> Convolution(const ConvolutionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Pooling(const PoolingDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Lrn(const LrnDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Activation(const ActivationDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> InnerProduct(const InnerProductDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Dropout(const DropoutDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Softmax(int axis, const Descs& in) override;
  StatusOr<OpPtr> SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Accuracy(const AccuracyDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Flatten(const Shape& out, const Descs& in) override;
  StatusOr<OpPtr> Concat(int axis, const Descs& in) override;
  StatusOr<OpPtr> Eltwise(const EltwiseDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Split(int ways, const Descs& in) override;
  StatusOr<OpPtr> Export(int parts, const Descs& in) override;

  void SgdUpdate(std::span<const SgdPart> parts) override;
  void SumsOfSquares(std::span<const SquaresPart> parts) override;
};

}  // namespace hp
