// Cosines between features and rows of weights: an inner product of features that were divided by their norms, whose
// columns are then divided by the norms of the weights' rows. There is no normalised copy of the weights, which may be
// far larger than a cache: MultiplyRows goes over them a few rows at a time, and takes their norms while they are in
// the cache. Backward, x' being x / |x|:
//   dx = (h - x' (x' h)) / |x|, h the sum over classes of dy w'    (linear in dy: shards' parts of it add up)
//   dw = (g - w' (w' g)) / |w|, g the sum over rows of dy x'
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/feature_rows.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/outer_product.h"
#include "backend/cpu/params_rows.h"
#include "backend/cpu/rounded_cosines.h"
#include "backend/cpu/row_norms.h"
#include "backend/cpu/rows_product.h"

#include <algorithm>

namespace hp {
namespace {

/// Rows of the weights' gradient that are computed together, a multiple of OuterProductSum's tiles.
constexpr int64_t kGradientRows = 24;

/// Saved: the inverse norms of the weights' rows. Scratch, in this order: the features, and a copy of them, packed for
/// the weights or for their gradient, or the gradient of the features.
class CosineProductOp final : public Op {
 public:
  CosineProductOp(const CosineProductDesc& desc, const Backend::Descs& in)
      : outputs_count_(desc.num_output),
        features_(in, /*normalize=*/true),
        rows_(features_.rows()),
        columns_(features_.columns()) {
    outputs_ = {{Shape{rows_, outputs_count_}, 1}};
    saved_bytes_ = outputs_count_ * sizeof(float);
    const int64_t packed = std::max(PackedFeatures(rows_, columns_), PackedColumns(rows_, columns_));
    scratch_bytes_ = (features_.floats() + packed) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    features_.Bring(args);
    PackFeatures(rows_, columns_, features_.Rows(args), 0, PackedOrGradients(args));
    MultiplyRows(rows_, PackedOrGradients(args), Weights(args), SavedNorms(args), args.out[0].floats(), outputs_count_);
  }

  void BackwardInput(const OpArgs& args) override {
    features_.Bring(args);
    SumRows(rows_, args.d_out[0].floats(), outputs_count_, Weights(args), SavedNorms(args), PackedOrGradients(args),
            columns_);
    features_.StoreGradients(args, PackedOrGradients(args));
  }

  void BackwardParams(const OpArgs& args) override {
    BackwardParamsInPieces(this, args, outputs_count_, columns_, rows_);
  }

  bool has_params_rows() const override { return true; }
  int64_t piece_rows() const override { return kGradientRows; }
  void BeginParamsRows(const OpArgs& args) override {
    features_.Bring(args);
    PackColumns(rows_, columns_, features_.Rows(args), PackedOrGradients(args));
  }
  void BackwardParamsRows(const OpArgs& args, int64_t begin, int64_t end, float* d_weights, float*) const override {
    for (int64_t first = begin; first < end; first += kGradientRows) {
      const int64_t count = std::min(kGradientRows, end - first);
      AddGradientRows(args, first, count, d_weights + (first - begin) * columns_);
    }
  }

  bool backward_reads_output() const override { return false; }

 private:
  float* PackedOrGradients(const OpArgs& args) const {
    return reinterpret_cast<float*>(args.scratch) + features_.floats();
  }
  static float* SavedNorms(const OpArgs& args) { return reinterpret_cast<float*>(args.saved); }

  WeightRows Weights(const OpArgs& args) const {
    return {args.params[0].data, columns_, columns_, nullptr, outputs_count_};
  }

  /// The gradients of `count` rows of weights from row `first` on, at most kGradientRows. What they are added to is
  /// multiplied by the norms first, as the projection divides by them, and its part along the weights is kept.
  void AddGradientRows(const OpArgs& args, int64_t first, int64_t count, float* d_weights) const {
    const float* const weights = args.params[0].data + first * columns_;
    float inverse_norms[kGradientRows];
    double kept[kGradientRows] = {};
    for (int64_t o = 0; o < count; ++o) {
      inverse_norms[o] = InverseNorm(weights + o * columns_, columns_);
      if (!args.accumulate) continue;
      float* const before = d_weights + o * columns_;
      for (int64_t i = 0; i < columns_; ++i) before[i] /= inverse_norms[o];
      kept[o] = RowDot(weights + o * columns_, before, columns_);
    }
    OuterProductSum({PackedOrGradients(args), rows_, columns_}, {0, rows_}, count, args.d_out[0].floats() + first,
                    outputs_count_, d_weights, columns_, args.accumulate);
    for (int64_t o = 0; o < count; ++o) {
      const float* const w = weights + o * columns_;
      float* const gradient = d_weights + o * columns_;
      const double square = static_cast<double>(inverse_norms[o]) * inverse_norms[o];
      const double along = (RowDot(w, gradient, columns_) - kept[o]) * square;
      ProjectRow(w, static_cast<float>(along), inverse_norms[o], columns_, gradient);
    }
  }

  const int64_t outputs_count_;
  const FeatureRows features_;
  const int64_t rows_, columns_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::CosineProduct(const CosineProductDesc& desc, const Descs& in) {
  if (factors_ == ElementType::kBFloat16 && onednn::HasAmx()) {
    StatusOr<Backend::OpPtr> rounded = MakeRoundedCosines(desc, in);
    if (!rounded.ok() || *rounded != nullptr) return rounded;
  }
  return Backend::OpPtr(std::make_unique<CosineProductOp>(desc, in));
}

}  // namespace hp
