#pragma once

#include "backend/backend.h"

namespace hp {

/// Makes ops for this host's cores, on tensors of float32 or bfloat16 in host memory; Backend (backend/backend.h) says
/// what each computes. Each method is defined in the file of its op: Pooling in pooling.cc. Tensors of any layout are
/// accepted; convolutions choose blocked or NHWC layouts (README.md). The backend never changes, so factory methods may
/// be called by any thread and ops of several executors share nothing; an op itself is for the executor thread. Only
/// Convolution and Deconvolution can fail: kInternal with oneDNN's message.
class CpuBackend final : public Backend {
 public:
  /// @param factors as for MakeCpuBackend.
  explicit CpuBackend(ElementType factors) : factors_(factors) {}

  StatusOr<OpPtr> Convolution(const ConvolutionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Deconvolution(const ConvolutionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Im2col(const ConvolutionDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Pooling(const PoolingDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Lrn(const LrnDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Activation(const ActivationDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> BatchNorm(const BatchNormDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Broadcast(const BroadcastDesc& desc, const Descs& in) override;
  bool has_moments() const override { return true; }
  StatusOr<OpPtr> Moments(const BatchNormDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> ScaledNorm(bool bias, const Descs& in) override;
  StatusOr<OpPtr> InnerProduct(const InnerProductDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> Embed(const EmbedDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> CosineProduct(const CosineProductDesc& desc, const Descs& in) override;
  StatusOr<OpPtr> SampledProduct(const SampledProductDesc& desc, const Descs& in) override;
  bool has_sampled_products() const override { return true; }
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

  // By all threads of the OpenMP team for large parts; done on return. In update.h the same for one part.
  void UpdateParams(std::span<const UpdatePart> parts) override;
  void SumsOfSquares(std::span<const SquaresPart> parts) override;
  void FloatImages(const RawImageRule& rule, int64_t rows, const std::byte* raw, float* out) override;
  void Clear(std::span<float> values) override;

 private:
  const ElementType factors_;
};

}  // namespace hp
