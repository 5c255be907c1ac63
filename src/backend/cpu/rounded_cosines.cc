// The formulas stand in cosine_product.cc.
#include "backend/cpu/rounded_cosines.h"

#include "backend/cpu/feature_rows.h"
#include "backend/cpu/inner_product.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/params_rows.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/rounded_products.h"
#include "backend/cpu/row_norms.h"
#include "base/format.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace hp {
namespace {

using onednn::AlignedBytes;
using onednn::RoundedProducts;

/// Scratch, in this order: the features; the same rounded; the transposed cosines of a strip, or the rounded gradient
/// of all and the features' gradient, with a product's own scratch behind, or the features in panels.
class RoundedCosinesOp final : public Op {
 public:
  /// Throws dnnl::error.
  RoundedCosinesOp(const CosineProductDesc& desc, const Backend::Descs& in)
      : outputs_count_(desc.num_output),
        features_(in, /*normalize=*/true),
        rows_(features_.rows()),
        columns_(features_.columns()),
        products_(context_, {rows_, outputs_count_, columns_, 0, columns_}, /*add=*/false, desc.input_gradient) {
    outputs_ = {{Shape{rows_, outputs_count_}, 1}};
    const size_t gradient_bytes = AlignedBytes(rows_ * outputs_count_, sizeof(BFloat16)) +
                                  AlignedBytes(rows_ * columns_, sizeof(float)) + products_.backward_bytes();
    scratch_bytes_ = PanelsOffset() +
                     std::max({TransposedBytes() + products_.forward_bytes(), gradient_bytes, products_.panel_bytes()});
    packed_bytes_ = products_.rows_bytes() + products_.pairs_bytes() + NormBytes();
  }

  bool usable() const { return products_.usable(); }

  void Forward(const OpArgs& args) override {
    BringRounded(args);
    auto* const transposed = reinterpret_cast<float*>(BehindRounded(args));
    const float* const inverse_norms = InverseNorms(args.params[0]);
    const int64_t strip = products_.strip();
    for (int64_t begin = 0; begin < outputs_count_; begin += strip) {
      products_.Forward(args.params[0], begin, Rounded(args), transposed, BehindRounded(args) + TransposedBytes());
      TransposeProduct(transposed, rows_, std::min(strip, outputs_count_ - begin), inverse_norms + begin, nullptr,
                       args.out[0].floats() + begin, outputs_count_);
    }
  }

  void BackwardInput(const OpArgs& args) override {
    features_.Bring(args);
    auto* const d_out = reinterpret_cast<BFloat16*>(BehindRounded(args));
    std::byte* const behind = BehindRounded(args) + AlignedBytes(rows_ * outputs_count_, sizeof(BFloat16));
    auto* const gradient = reinterpret_cast<float*>(behind);
    RoundTimes(args.d_out[0].floats(), InverseNorms(args.params[0]), d_out);
    products_.BackwardInput(args.params[0], d_out, gradient, behind + AlignedBytes(rows_ * columns_, sizeof(float)));
    features_.StoreGradients(args, gradient);
  }

  void BackwardParams(const OpArgs& args) override {
    BackwardParamsInPieces(this, args, outputs_count_, columns_, rows_);
  }

  bool has_params_rows() const override { return true; }
  int64_t piece_rows() const override { return kPieceRows; }
  void BeginParamsRows(const OpArgs& args) override {
    BringRounded(args);
    products_.PackPanels(Rounded(args), Panels(args));
  }
  void BackwardParamsRows(const OpArgs& args, int64_t begin, int64_t end, float* d_weights, float*) const override {
    for (int64_t first = begin; first < end; first += kPieceRows) {
      Piece(args, first, std::min(kPieceRows, end - first), d_weights + (first - begin) * columns_);
    }
  }

  bool backward_reads_output() const override { return false; }

 private:
  static constexpr int64_t kPieceRows = RoundedProducts::kPieceRows;

  size_t PanelsOffset() const {
    return AlignedBytes(features_.floats(), sizeof(float)) + AlignedBytes(rows_ * columns_, sizeof(BFloat16));
  }
  size_t TransposedBytes() const { return AlignedBytes(rows_ * products_.strip(), sizeof(float)); }
  size_t NormBytes() const { return static_cast<size_t>(outputs_count_) * sizeof(float); }

  BFloat16* Rounded(const OpArgs& args) const {
    return reinterpret_cast<BFloat16*>(args.scratch + AlignedBytes(features_.floats(), sizeof(float)));
  }
  std::byte* BehindRounded(const OpArgs& args) const { return args.scratch + PanelsOffset(); }
  BFloat16* Panels(const OpArgs& args) const { return reinterpret_cast<BFloat16*>(BehindRounded(args)); }

  void BringRounded(const OpArgs& args) const {
    features_.Bring(args);
    const Shape shape{rows_, columns_};
    CopyLayout({shape, 1}, features_.Rows(args), {shape, 1, ElementType::kBFloat16}, Rounded(args));
  }

  /// Of W's rows.
  const float* InverseNorms(const ParamView& weights) const {
    const PackedParams::FillRows fill = [from = weights.data, columns = columns_](std::byte* to, int64_t begin,
                                                                                  int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        reinterpret_cast<float*>(to)[o] = InverseNorm(from + o * columns, columns);
      }
    };
    return reinterpret_cast<const float*>(
        onednn::CopyOfRows(weights, Format("inverse norms of rows of %lld", static_cast<long long>(columns_)),
                           NormBytes(), outputs_count_, columns_, fill));
  }

  /// to [rows, outputs] = the gradients times the columns' factors.
  void RoundTimes(const float* gradients, const float* factors, BFloat16* to) const {
    const int64_t pieces = (outputs_count_ + kChunkElements - 1) / kChunkElements;
    ForItems(rows_ * pieces, rows_ * outputs_count_, [&](int64_t i) {
      const int64_t first = i % pieces * kChunkElements, row = i / pieces * outputs_count_;
      ForEachChunk(std::min(kChunkElements, outputs_count_ - first), [&](auto width, int64_t c) {
        constexpr int W = decltype(width)::value;
        Store<W>(to + row + first + c, Load<W>(gradients + row + first + c) * Load<W>(factors + first + c));
      });
    });
  }

  /// The weights' gradient of `count` outputs, computed beside its place, since it is projected before it is added.
  void Piece(const OpArgs& args, int64_t begin, int64_t count, float* d_weights) const {
    static thread_local std::vector<std::byte> buffer;
    auto* const sums = reinterpret_cast<float*>(onednn::ThreadRoom(kPieceRows * columns_ * sizeof(float), &buffer));
    products_.AddPiece(products_.GatherPiece(args.d_out[0].floats(), begin, count), Panels(args), /*add=*/false, sums);
    for (int64_t o = 0; o < count; ++o) {
      const float* const w = args.params[0].data + (begin + o) * columns_;
      float* const gradient = sums + o * columns_;
      float* const target = d_weights + o * columns_;
      const float inverse_norm = InverseNorm(w, columns_);
      const double along = RowDot(w, gradient, columns_) * inverse_norm * inverse_norm;
      ProjectRow(w, static_cast<float>(along), inverse_norm, columns_, gradient);
      if (!args.accumulate) {
        std::copy_n(gradient, columns_, target);
        continue;
      }
#pragma omp simd
      for (int64_t i = 0; i < columns_; ++i) target[i] += gradient[i];
    }
  }

  const int64_t outputs_count_;
  const FeatureRows features_;
  const int64_t rows_, columns_;
  const onednn::Context context_;
  const RoundedProducts products_;
};

}  // namespace

StatusOr<Backend::OpPtr> MakeRoundedCosines(const CosineProductDesc& desc, const Backend::Descs& in) {
  std::unique_ptr<RoundedCosinesOp> op;
  HP_RETURN_IF_ERROR(onednn::Guard("cosines of bfloat16", [&] { op = std::make_unique<RoundedCosinesOp>(desc, in); }));
  if (!op->usable()) return Backend::OpPtr();
  return Backend::OpPtr(std::move(op));
}

}  // namespace hp
