#include "backend/cuda/cuda_backend.h"

#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/ops.h"

namespace hp {
namespace {

/// Hands each request to the function that makes the op.
class CudaBackend : public Backend {
 public:
  CudaBackend(Gpu* gpu, std::unique_ptr<GpuLibrary> library, Buffer partial_sums)
      : library_(std::move(library)),
        partial_sums_(std::move(partial_sums)),
        context_{gpu, library_.get(), reinterpret_cast<double*>(partial_sums_.data())} {}

  StatusOr<OpPtr> Convolution(const ConvolutionDesc& desc, const Descs& in) override {
    return cuda::MakeConvolution(context_, desc, in);
  }
  StatusOr<OpPtr> Pooling(const PoolingDesc& desc, const Descs& in) override {
    return cuda::MakePooling(context_, desc, in);
  }
  StatusOr<OpPtr> Lrn(const LrnDesc& desc, const Descs& in) override { return cuda::MakeLrn(context_, desc, in); }
  StatusOr<OpPtr> Activation(const ActivationDesc& desc, const Descs& in) override {
    return cuda::MakeActivation(context_, desc, in);
  }
  StatusOr<OpPtr> InnerProduct(const InnerProductDesc& desc, const Descs& in) override {
    return cuda::MakeInnerProduct(context_, desc, in);
  }
  StatusOr<OpPtr> Dropout(const DropoutDesc& desc, const Descs& in) override {
    return cuda::MakeDropout(context_, desc, in);
  }
  StatusOr<OpPtr> Softmax(int axis, const Descs& in) override {
    return cuda::OnFloat32(context_, in,
                           [&](const Descs& float32) { return cuda::MakeSoftmax(context_, axis, float32); });
  }
  StatusOr<OpPtr> SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) override {
    return cuda::OnFloat32(context_, in,
                           [&](const Descs& float32) { return cuda::MakeSoftmaxLoss(context_, desc, float32); });
  }
  StatusOr<OpPtr> Accuracy(const AccuracyDesc& desc, const Descs& in) override {
    return cuda::OnFloat32(context_, in,
                           [&](const Descs& float32) { return cuda::MakeAccuracy(context_, desc, float32); });
  }
  StatusOr<OpPtr> Flatten(const Shape& out, const Descs& in) override { return cuda::MakeFlatten(context_, out, in); }
  StatusOr<OpPtr> Concat(int axis, const Descs& in) override { return cuda::MakeConcat(context_, axis, in); }
  StatusOr<OpPtr> Eltwise(const EltwiseDesc& desc, const Descs& in) override {
    return cuda::MakeEltwise(context_, desc, in);
  }
  StatusOr<OpPtr> Split(int ways, const Descs& in) override { return cuda::MakeSplit(context_, ways, in); }
  StatusOr<OpPtr> Export(int parts, const Descs& in) override { return cuda::MakeExport(context_, parts, in); }

  void SgdUpdate(std::span<const SgdPart> parts) override { cuda::SgdUpdate(context_.stream(), parts); }
  void SumsOfSquares(std::span<const SquaresPart> parts) override { cuda::SumsOfSquares(context_, parts); }

 private:
  const std::unique_ptr<GpuLibrary> library_;
  const Buffer partial_sums_;
  const GpuContext context_;
};

}  // namespace

StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(Gpu* gpu, std::unique_ptr<GpuLibrary> library) {
  StatusOr<Buffer> partial_sums = gpu->Allocate(cuda::PartialSums() * sizeof(double));
  if (!partial_sums.ok()) return partial_sums.status();
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(gpu, std::move(library), *std::move(partial_sums)));
}

}  // namespace hp
