#include "backend/cpu/ops.h"
#include "backend/cpu/update.h"

namespace hp {
namespace {

/// Hands each request to the function that makes the op; it has no state, so ops of several executors share nothing.
class CpuBackend : public Backend {
 public:
  StatusOr<OpPtr> Convolution(const ConvolutionDesc& desc, const Descs& in) override {
    return MakeConvolution(desc, in);
  }
  StatusOr<OpPtr> Pooling(const PoolingDesc& desc, const Descs& in) override { return MakePooling(desc, in); }
  StatusOr<OpPtr> Lrn(const LrnDesc& desc, const Descs& in) override { return MakeLrn(desc, in); }
  StatusOr<OpPtr> Activation(const ActivationDesc& desc, const Descs& in) override { return MakeActivation(desc, in); }
  StatusOr<OpPtr> InnerProduct(const InnerProductDesc& desc, const Descs& in) override {
    return MakeInnerProduct(desc, in);
  }
  StatusOr<OpPtr> Dropout(const DropoutDesc& desc, const Descs& in) override { return MakeDropout(desc, in); }
  StatusOr<OpPtr> Softmax(int axis, const Descs& in) override { return MakeSoftmax(axis, in); }
  StatusOr<OpPtr> SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) override {
    return MakeSoftmaxLoss(desc, in);
  }
  StatusOr<OpPtr> Accuracy(const AccuracyDesc& desc, const Descs& in) override { return MakeAccuracy(desc, in); }
  StatusOr<OpPtr> Flatten(const Shape& out, const Descs& in) override { return MakeFlatten(out, in); }
  StatusOr<OpPtr> Concat(int axis, const Descs& in) override { return MakeConcat(axis, in); }
  StatusOr<OpPtr> Eltwise(const EltwiseDesc& desc, const Descs& in) override { return MakeEltwise(desc, in); }
  StatusOr<OpPtr> Split(int ways, const Descs& in) override { return MakeSplit(ways, in); }
  StatusOr<OpPtr> Export(int parts, const Descs& in) override { return MakeExport(parts, in); }
  void SgdUpdate(std::span<const SgdPart> parts) override {
    for (const SgdPart& p : parts) hp::SgdUpdate(p.coefficients, p.n, p.gradient, p.history, p.weights);
  }
  void SumsOfSquares(std::span<const SquaresPart> parts) override {
    for (const SquaresPart& p : parts) *p.sum = SumOfSquares(p.values, p.n);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace hp
