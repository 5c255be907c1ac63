#include "backend/cpu/rounded_product.h"

#include "backend/cpu/column_sums.h"
#include "backend/cpu/inner_product.h"
#include "backend/cpu/input_rows.h"
#include "backend/cpu/params_rows.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/rounded_products.h"
#include "backend/layout.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace hp {
namespace {

using onednn::AlignedBytes;
using onednn::RoundedProducts;

constexpr ElementType kRounded = ElementType::kBFloat16;

/// Scratch, in this order: the inputs' copies in float32, for their gradients; x of each input, unless it is rows of
/// bfloat16; y^T of a strip or the rounded gradient of y, with a product's own scratch behind it, or x once more, in
/// panels.
class RoundedProductOp final : public Op {
 public:
  /// Throws dnnl::error.
  RoundedProductOp(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out)
      : bias_(desc.bias),
        outputs_count_(desc.num_output),
        inputs_(in, desc.axis),
        rows_(inputs_.rows()),
        columns_(inputs_.columns()) {
    outputs_ = {{out, 1}};
    size_t x_bytes = 0, panel_bytes = 0, forward_bytes = 0, backward_bytes = 0;
    for (const InputRows::Block& block : inputs_.blocks()) {
      const bool in_place = EffectiveBlock(block.desc) == 1 && block.desc.element == kRounded;
      RoundedProducts products(context_, {rows_, outputs_count_, columns_, block.first, block.columns},
                               /*add=*/!parts_.empty(), desc.input_gradient);
      parts_.push_back({block.desc, in_place, std::move(products), x_bytes, panel_bytes});
      const RoundedProducts& added = parts_.back().products;
      x_bytes += in_place ? 0 : AlignedBytes(rows_ * block.columns, sizeof(BFloat16));
      panel_bytes += added.panel_bytes();
      forward_bytes = std::max(forward_bytes, added.forward_bytes());
      backward_bytes = std::max(backward_bytes, added.backward_bytes());
      packed_bytes_ += added.pairs_bytes();
    }
    packed_bytes_ += parts_[0].products.rows_bytes();
    panels_offset_ = AlignedBytes(inputs_.floats(), sizeof(float)) + x_bytes;
    const size_t gradient_bytes = AlignedBytes(rows_ * outputs_count_, sizeof(BFloat16));
    scratch_bytes_ =
        panels_offset_ + std::max({TransposedBytes() + forward_bytes, gradient_bytes + backward_bytes, panel_bytes});
  }

  bool usable() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.products.usable(); });
  }

  void Forward(const OpArgs& args) override {
    BringRounded(args);
    auto* const transposed = reinterpret_cast<float*>(BehindInputs(args));
    std::byte* const scratch = BehindInputs(args) + TransposedBytes();
    const int64_t strip = parts_[0].products.strip();
    for (int64_t begin = 0; begin < outputs_count_; begin += strip) {
      for (const Part& part : parts_) {
        part.products.Forward(args.params[0], begin, RowsOf(args, part), transposed, scratch);
      }
      TransposeProduct(transposed, rows_, std::min(strip, outputs_count_ - begin), nullptr,
                       bias_ ? args.params[1].data + begin : nullptr, args.out[0].floats() + begin, outputs_count_);
    }
  }

  void BackwardInput(const OpArgs& args) override {
    auto* const d_out = reinterpret_cast<BFloat16*>(BehindInputs(args));
    CopyLayout({args.d_out[0].desc.shape, 1}, args.d_out[0].data, {args.d_out[0].desc.shape, 1, kRounded}, d_out);
    std::byte* const scratch = BehindInputs(args) + AlignedBytes(rows_ * outputs_count_, sizeof(BFloat16));
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (args.d_in[i].data == nullptr) continue;
      parts_[i].products.BackwardInput(args.params[0], d_out, inputs_.GradientRows(args, i), scratch);
      inputs_.StoreGradient(args, i);
    }
  }

  void BackwardParams(const OpArgs& args) override {
    BackwardParamsInPieces(this, args, outputs_count_, columns_, rows_);
  }

  bool has_params_rows() const override { return true; }
  int64_t piece_rows() const override { return kPieceRows; }
  void BeginParamsRows(const OpArgs& args) override {
    BringRounded(args);
    for (const Part& part : parts_) part.products.PackPanels(RowsOf(args, part), PanelsOf(args, part));
  }
  void BackwardParamsRows(const OpArgs& args, int64_t begin, int64_t end, float* d_weights,
                          float* d_bias) const override {
    for (int64_t first = begin; first < end; first += kPieceRows) {
      Piece(args, first, std::min(kPieceRows, end - first), d_weights + (first - begin) * columns_);
    }
    if (bias_) {
      ColumnSums(args.d_out[0].floats() + begin, rows_, end - begin, outputs_count_, args.accumulate, d_bias);
    }
  }

  bool backward_reads_output() const override { return false; }

 private:
  static constexpr int64_t kPieceRows = RoundedProducts::kPieceRows;

  /// Of one input.
  struct Part {
    TensorDesc desc;
    bool in_place;  // x is rows of bfloat16
    RoundedProducts products;
    size_t x_offset, panel_offset;
  };

  size_t TransposedBytes() const { return AlignedBytes(rows_ * parts_[0].products.strip(), sizeof(float)); }
  std::byte* BehindInputs(const OpArgs& args) const { return args.scratch + panels_offset_; }
  BFloat16* PanelsOf(const OpArgs& args, const Part& part) const {
    return reinterpret_cast<BFloat16*>(BehindInputs(args) + part.panel_offset);
  }
  const BFloat16* RowsOf(const OpArgs& args, const Part& part) const {
    if (part.in_place) return static_cast<const BFloat16*>(args.in[&part - parts_.data()].data);
    return reinterpret_cast<const BFloat16*>(args.scratch + AlignedBytes(inputs_.floats(), sizeof(float)) +
                                             part.x_offset);
  }
  void BringRounded(const OpArgs& args) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].in_place) continue;
      CopyLayout(parts_[i].desc, args.in[i].data, {parts_[i].desc.shape, 1, kRounded},
                 const_cast<BFloat16*>(RowsOf(args, parts_[i])));
    }
  }

  /// The weights' gradient of `count` outputs. Of fewer than kPieceRows, and of several inputs, since oneDNN packs x
  /// anew where rows of sums are no neighbours, it is computed beside its place: so bits do not depend on the piece.
  void Piece(const OpArgs& args, int64_t begin, int64_t count, float* d_weights) const {
    static thread_local std::vector<std::byte> buffer;
    for (const Part& part : parts_) {
      const RoundedProducts& products = part.products;
      const auto [first, columns] = std::pair(products.sizes().first, products.sizes().columns);
      const BFloat16* const piece = products.GatherPiece(args.d_out[0].floats(), begin, count);
      if (count == kPieceRows && parts_.size() == 1) {
        products.AddPiece(piece, PanelsOf(args, part), args.accumulate, d_weights);
        continue;
      }
      auto* const sums = reinterpret_cast<float*>(onednn::ThreadRoom(kPieceRows * columns * sizeof(float), &buffer));
      for (int64_t o = 0; args.accumulate && o < count; ++o) {
        std::copy_n(d_weights + o * columns_ + first, columns, sums + o * columns);
      }
      products.AddPiece(piece, PanelsOf(args, part), args.accumulate, sums);
      for (int64_t o = 0; o < count; ++o) std::copy_n(sums + o * columns, columns, d_weights + o * columns_ + first);
    }
  }

  const bool bias_;
  const int64_t outputs_count_;
  const InputRows inputs_;
  const int64_t rows_, columns_;
  const onednn::Context context_;
  std::vector<Part> parts_;
  size_t panels_offset_ = 0;  // in scratch
};

}  // namespace

StatusOr<Backend::OpPtr> MakeRoundedProduct(const InnerProductDesc& desc, const Backend::Descs& in, const Shape& out) {
  std::unique_ptr<RoundedProductOp> op;
  HP_RETURN_IF_ERROR(
      onednn::Guard("inner product of bfloat16", [&] { op = std::make_unique<RoundedProductOp>(desc, in, out); }));
  if (!op->usable()) return Backend::OpPtr();
  return Backend::OpPtr(std::move(op));
}

}  // namespace hp
