#pragma once

#include "backend/backend.h"
#include "backend/cuda/kept_gradients.h"
#include "backend/cuda/library.h"
#include "backend/cuda/ops.h"
#include "tensor/buffer.h"

#include <memory>
#include <span>

namespace hp {
namespace cuda {

/// Makes ops that put their work into the compute queue of a GPU, on tensors in its memory: dense or NHWC, float32 or
/// the library's element type. Backend (backend/backend.h) says what each computes, README.md of this folder which
/// layouts and types they choose. Each method is defined in the file of its op: Pooling in pooling.cu. A call of an op
/// only queues work, and the same work for the same arguments, so that it may be captured. Made by MakeCudaBackend.
class CudaBackend final : public Backend {
 public:
  /// @param gpu must outlive the backend and its ops. @param partial_sums PartialSums() doubles in its memory.
  CudaBackend(Gpu* gpu, std::unique_ptr<GpuLibrary> library, Buffer partial_sums)
      : library_(std::move(library)),
        partial_sums_(std::move(partial_sums)),
        kept_gradients_(gpu->stream(Device::kCompute)),
        context_{gpu, library_.get(), &kept_gradients_, reinterpret_cast<double*>(partial_sums_.data())} {}

  StatusOr<OpPtr> Convolution(const ConvolutionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Deconvolution(const ConvolutionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Im2col(const ConvolutionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Pooling(const PoolingDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Lrn(const LrnDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Activation(const ActivationDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> BatchNorm(const BatchNormDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Broadcast(const BroadcastDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> InnerProduct(const InnerProductDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Embed(const EmbedDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> CosineProduct(const CosineProductDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> SampledProduct(const SampledProductDesc& desc, const Descs& in) override;
  bool has_sampled_products() const override { return false; }
  bool has_moments() const override { return false; }
  StatusOr<OpPtr> Moments(const BatchNormDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> ScaledNorm(bool bias, const Descs& in) override;
  StatusOr<OpPtr> Dropout(const DropoutDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Softmax(int axis, const Descs& in) override;
  StatusOr<OpPtr> SoftmaxLoss(const SoftmaxLossDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> InfogainLoss(const InfogainLossDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Accuracy(const AccuracyDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> ClassStatistics(const ClassSlice& classes, bool labels, const std::optional<MarginDesc>& margin,
                                  const Descs& in) override;
  StatusOr<OpPtr> SlicedSoftmax(const Descs& in) override;
  StatusOr<OpPtr> SlicedSoftmaxLoss(const SoftmaxLossDesc& desc, const ClassSlice& classes, const Descs& in) override;
  StatusOr<OpPtr> TopScores(const AccuracyDesc& desc, const ClassSlice& classes, const Descs& in) override;
  StatusOr<OpPtr> JoinedStatistics(const ClassSlice& classes, const Descs& in) override;
  StatusOr<OpPtr> JoinedTopScores(const AccuracyDesc& desc, const ClassSlice& classes, const Descs& in) override;
  StatusOr<OpPtr> SlicedAccuracy(const AccuracyDesc& desc, int64_t classes, const Descs& in) override;
  StatusOr<OpPtr> Flatten(const Shape& out, const Descs& in) override;
  StatusOr<OpPtr> Concat(int axis, const Descs& in) override;
  StatusOr<OpPtr> Slice(int axis, const std::vector<int64_t>& sizes, const Descs& in) override;
  StatusOr<OpPtr> Crop(const std::vector<int64_t>& offsets, const Shape& out, const Descs& in) override;
  StatusOr<OpPtr> Tile(int axis, int64_t tiles, const Descs& in) override;
  StatusOr<OpPtr> Eltwise(const EltwiseDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Reduction(const ReductionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> ArgMax(const ArgMaxDesc& desc, const Shape& out, const Descs& in) override;
  StatusOr<OpPtr> Mvn(const MvnDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> ElementLoss(const ElementLossDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> ContrastiveLoss(const ContrastiveLossDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Split(int ways, const Descs& in) override;
  StatusOr<OpPtr> Export(int parts, ElementType element, const Descs& in) override;
  StatusOr<OpPtr> Import(const Descs& in) override;
  StatusOr<OpPtr> Round(ElementType element, const Descs& in) override;
  StatusOr<OpPtr> Scatter(const std::vector<Range>& channels, const Descs& in) override;
  StatusOr<OpPtr> Sum(bool bias, const Descs& in) override;

  void FinishGradients() override { kept_gradients_.Finish(); }
  void UpdateParams(std::span<const UpdatePart> parts) override { cuda::UpdateParams(context_.stream(), parts); }
  void SumsOfSquares(std::span<const SquaresPart> parts) override { cuda::SumsOfSquares(context_, parts); }
  void FloatImages(const RawImageRule& rule, int64_t rows, const std::byte* raw, float* out) override {
    cuda::FloatImages(context_.stream(), rule, rows, raw, out);
  }
  StatusOr<std::unique_ptr<RawImageDecoder>> ImageDecoder(int64_t rows, int64_t whole_bytes) override;
  void Clear(std::span<float> values) override { cuda::Clear(context_.stream(), values); }

 private:
  const std::unique_ptr<GpuLibrary> library_;
  const Buffer partial_sums_;
  KeptGradients kept_gradients_;
  const GpuContext context_;
};

}  // namespace cuda

/// The backend of a GPU. `gpu` must outlive the backend and its ops, the backend its ops.
/// @return kResourceExhausted: no memory for partial sums of SumsOfSquares.
StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(Gpu* gpu, std::unique_ptr<GpuLibrary> library);

}  // namespace hp
