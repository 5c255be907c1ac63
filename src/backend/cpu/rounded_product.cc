// Forward it is W x^T of rows of W as they are but for their type, since A needs no packing in oneDNN; backward W is
// the second factor, which has to lie in pairs of rows. So there are two copies of W. A gradient in pieces reads x as
// pairs of rows as well, packed once for all pieces.
#include "backend/cpu/rounded_product.h"

#include "backend/cpu/column_sums.h"
#include "backend/cpu/inner_product.h"
#include "backend/cpu/input_rows.h"
#include "backend/cpu/matrix_product.h"
#include "backend/cpu/pair_format.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/rounding.h"
#include "backend/layout.h"
#include "base/format.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace hp {
namespace {

using onednn::MatrixProduct;
using onednn::PairFormat;

constexpr ElementType kRounded = ElementType::kBFloat16;
/// Outputs whose weight gradients are one product: the rows of a register of AMX. With 8, 24 or 32 an update was no
/// faster.
constexpr int64_t kPieceRows = 16;
static_assert(kPieceRows % PackedParams::kRowsTogether == 0);
constexpr int64_t kFillRows = 32;  // of a copy of W, by one thread
static_assert(kFillRows % PackedParams::kRowsTogether == 0);

int64_t RoundedUp(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

/// Bytes of an array in scratch, so that what is behind it is aligned.
size_t BytesOf(int64_t elements, size_t each) { return RoundedUp(elements * static_cast<int64_t>(each), 64); }

/// Memory of the calling thread alone, aligned to 64 bytes; the next call for the same `buffer` invalidates it.
std::byte* Room(size_t bytes, std::vector<std::byte>* buffer) {
  buffer->resize(std::max(buffer->size(), bytes + 64));
  const auto at = reinterpret_cast<uintptr_t>(buffer->data());
  return buffer->data() + (64 - at % 64) % 64;
}

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
    for (const InputRows::Block& block : inputs_.blocks()) AddPart(block, desc.input_gradient);
    size_t x_bytes = 0, panel_bytes = 0, forward_bytes = 0, backward_bytes = 0;
    for (Part& part : parts_) {
      part.x_offset = x_bytes, part.panel_offset = panel_bytes;
      x_bytes += part.in_place ? 0 : BytesOf(rows_ * part.columns, sizeof(BFloat16));
      panel_bytes += part.panel_bytes();
      forward_bytes = std::max(forward_bytes, part.forward.scratch_bytes());
      if (part.backward) backward_bytes = std::max(backward_bytes, part.backward->scratch_bytes());
    }
    panels_offset_ = BytesOf(inputs_.floats(), sizeof(float)) + x_bytes;
    scratch_bytes_ =
        panels_offset_ + std::max({BytesOf(rows_ * outputs_count_, sizeof(float)) + forward_bytes,
                                   BytesOf(rows_ * outputs_count_, sizeof(BFloat16)) + backward_bytes, panel_bytes});
    packed_bytes_ = RowsBytes();
    for (const Part& part : parts_) packed_bytes_ += part.backward ? part.backward->b_format().get_size() : 0;
  }

  /// Whether oneDNN has kernels for all of it, that read pairs of rows.
  bool usable() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
      const bool backward = !part.backward || (!part.backward->is_reference() && part.weight_pairs);
      return backward && !part.forward.is_reference() && !part.set.is_reference() && !part.add.is_reference() &&
             part.x_pairs;
    });
  }

  void Forward(const OpArgs& args) override {
    BringRounded(args);
    const BFloat16* const weights = RoundedRows(args.params[0]);
    auto* const transposed = reinterpret_cast<float*>(BehindInputs(args));
    std::byte* const scratch = BehindInputs(args) + BytesOf(rows_ * outputs_count_, sizeof(float));
    for (const Part& part : parts_) {
      part.forward.Run(context_, weights + part.first, RowsOf(args, part), transposed, scratch);
    }
    TransposeAndAddBias(transposed, rows_, outputs_count_, bias_ ? args.params[1].data : nullptr, args.out[0].floats());
  }

  void BackwardInput(const OpArgs& args) override {
    auto* const d_out = reinterpret_cast<BFloat16*>(BehindInputs(args));
    CopyLayout({args.d_out[0].desc.shape, 1}, args.d_out[0].data, {args.d_out[0].desc.shape, 1, kRounded}, d_out);
    std::byte* const scratch = BehindInputs(args) + BytesOf(rows_ * outputs_count_, sizeof(BFloat16));
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (args.d_in[i].data == nullptr) continue;
      parts_[i].backward->Run(context_, d_out, Pairs(parts_[i], args.params[0]), inputs_.GradientRows(args, i),
                              scratch);
      inputs_.StoreGradient(args, i);
    }
  }

  void BackwardParams(const OpArgs& args) override {
    BeginParamsRows(args);
    const int64_t pieces = (outputs_count_ + kPieceRows - 1) / kPieceRows;
#pragma omp parallel for schedule(static) if (rows_ * columns_ * outputs_count_ > kChunkElements)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t begin = piece * kPieceRows, end = std::min(begin + kPieceRows, outputs_count_);
      BackwardParamsRows(args, begin, end, args.d_params[0] + begin * columns_,
                         bias_ ? args.d_params[1] + begin : nullptr);
    }
  }

  bool has_params_rows() const override { return true; }
  int64_t piece_rows() const override { return kPieceRows; }
  void BeginParamsRows(const OpArgs& args) override {
    BringRounded(args);
    for (const Part& part : parts_) {
      const BFloat16* const x = RowsOf(args, part);
      BFloat16* const panels = PanelsOf(args, part);
      const int64_t blocks = (rows_ + PairFormat::kRows - 1) / PairFormat::kRows;
      ForItems(blocks, rows_ * part.columns, [&](int64_t block) {
        const int64_t begin = block * PairFormat::kRows, end = std::min(begin + PairFormat::kRows, rows_);
        part.x_pairs->Write(x + begin * part.columns, part.columns, begin, end, /*cached=*/true, panels);
      });
    }
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
  /// Of one input.
  struct Part {
    TensorDesc desc;
    int64_t first, columns;                       // of W
    bool in_place;                                // x is rows of bfloat16
    MatrixProduct forward;                        // W x^T
    MatrixProduct set, add;                       // kPieceRows of the weights' gradient
    std::optional<PairFormat> x_pairs = {};       // their second factor
    std::optional<MatrixProduct> backward = {};   // dy W
    std::optional<PairFormat> weight_pairs = {};  // its second factor
    std::string pairs_key = {};
    size_t x_offset = 0, panel_offset = 0;

    size_t panel_bytes() const { return RoundedUp(static_cast<int64_t>(set.b_format().get_size()), 64); }
  };

  void AddPart(const InputRows::Block& block, bool input_gradient) {
    const int64_t columns = block.columns, padded = PaddedRows();
    const MatrixProduct::Factor packed{columns, 1, kRounded, /*packed=*/true};
    const auto piece = [&](bool add) {
      return MatrixProduct::OfOneThread(context_, {kPieceRows, columns, padded}, {padded, 1, kRounded}, packed,
                                        {columns, add});
    };
    const bool first = parts_.empty();
    Part part = {
        block.desc,
        block.first,
        columns,
        EffectiveBlock(block.desc) == 1 && block.desc.element == kRounded,
        {context_, {outputs_count_, rows_, columns}, {columns_, 1, kRounded}, {1, columns, kRounded}, {rows_, !first}},
        piece(false),
        piece(true)};
    part.x_pairs = PairFormat::Of(part.set.b_format(), rows_);
    if (input_gradient) {
      part.backward = {context_, {rows_, columns, outputs_count_}, {outputs_count_, 1, kRounded}, packed, {columns}};
      part.weight_pairs = PairFormat::Of(part.backward->b_format(), outputs_count_);
      part.pairs_key = Format("product from %lld ", static_cast<long long>(block.first)) +
                       onednn::FormatName(part.backward->b_format());
    }
    parts_.push_back(std::move(part));
  }

  /// Of x as the second factor of a weight gradient: with fewer pairs than one register has oneDNN does without AMX.
  int64_t PaddedRows() const { return RoundedUp(rows_, PairFormat::kRows); }

  std::byte* BehindInputs(const OpArgs& args) const { return args.scratch + panels_offset_; }
  BFloat16* PanelsOf(const OpArgs& args, const Part& part) const {
    return reinterpret_cast<BFloat16*>(BehindInputs(args) + part.panel_offset);
  }
  const BFloat16* RowsOf(const OpArgs& args, const Part& part) const {
    if (part.in_place) return static_cast<const BFloat16*>(args.in[&part - parts_.data()].data);
    return reinterpret_cast<const BFloat16*>(args.scratch + BytesOf(inputs_.floats(), sizeof(float)) + part.x_offset);
  }
  void BringRounded(const OpArgs& args) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].in_place) continue;
      CopyLayout(parts_[i].desc, args.in[i].data, {parts_[i].desc.shape, 1, kRounded},
                 const_cast<BFloat16*>(RowsOf(args, parts_[i])));
    }
  }

  size_t RowsBytes() const { return static_cast<size_t>(outputs_count_ * columns_) * sizeof(BFloat16); }

  /// W [outputs, columns].
  const BFloat16* RoundedRows(const ParamView& weights) const {
    const PackedParams::FillRows fill = [from = weights.data, columns = columns_](std::byte* to, int64_t begin,
                                                                                  int64_t end) {
      RoundUncached(from + begin * columns, (end - begin) * columns, reinterpret_cast<BFloat16*>(to) + begin * columns);
    };
    return Copy(weights, rows_key_, RowsBytes(), fill);
  }
  /// W's columns of one input as the second factor of dy W.
  const BFloat16* Pairs(const Part& part, const ParamView& weights) const {
    const PackedParams::FillRows fill = [from = weights.data + part.first, stride = columns_,
                                         pairs = *part.weight_pairs](std::byte* to, int64_t begin, int64_t end) {
      pairs.Write(from + begin * stride, stride, begin, end, /*cached=*/false, reinterpret_cast<BFloat16*>(to));
    };
    return Copy(weights, part.pairs_key, part.backward->b_format().get_size(), fill);
  }
  const BFloat16* Copy(const ParamView& weights, const std::string& key, size_t bytes,
                       const PackedParams::FillRows& fill) const {
    const auto whole = [this, fill](std::byte* to) {
      const int64_t pieces = (outputs_count_ + kFillRows - 1) / kFillRows;
      ForItems(pieces, outputs_count_ * columns_,
               [&](int64_t piece) { fill(to, piece * kFillRows, std::min((piece + 1) * kFillRows, outputs_count_)); });
    };
    return reinterpret_cast<const BFloat16*>(weights.packed->Get(key, bytes, weights.version, whole, fill));
  }

  /// The weights' gradient of `count` outputs. Of fewer than kPieceRows, and of several inputs, since oneDNN packs x
  /// anew where rows of sums are no neighbours, it is computed beside its place: so bits do not depend on the piece.
  void Piece(const OpArgs& args, int64_t begin, int64_t count, float* d_weights) const {
    static thread_local std::vector<std::byte> d_out_room, scratch_room, sums_room;
    const onednn::Context context = {context_.engine, dnnl::stream(context_.engine)};
    auto* const d_out = reinterpret_cast<BFloat16*>(Room(kPieceRows * PaddedRows() * sizeof(BFloat16), &d_out_room));
    Transpose(args.d_out[0].floats() + begin, count, d_out);
    for (const Part& part : parts_) {
      const MatrixProduct& product = args.accumulate ? part.add : part.set;
      std::byte* const scratch = Room(product.scratch_bytes(), &scratch_room);
      if (count == kPieceRows && parts_.size() == 1) {
        product.Run(context, d_out, PanelsOf(args, part), d_weights, scratch);
        continue;
      }
      auto* const sums = reinterpret_cast<float*>(Room(kPieceRows * part.columns * sizeof(float), &sums_room));
      for (int64_t o = 0; args.accumulate && o < count; ++o) {
        std::copy_n(d_weights + o * columns_ + part.first, part.columns, sums + o * part.columns);
      }
      product.Run(context, d_out, PanelsOf(args, part), sums, scratch);
      for (int64_t o = 0; o < count; ++o) {
        std::copy_n(sums + o * part.columns, part.columns, d_weights + o * columns_ + part.first);
      }
    }
  }

  /// `count` outputs' gradients as [kPieceRows, PaddedRows()], what is not there zero.
  void Transpose(const float* from, int64_t count, BFloat16* to) const {
    const int64_t padded = PaddedRows();
    std::fill_n(reinterpret_cast<uint16_t*>(to), kPieceRows * padded, uint16_t{0});
    for (int64_t r = 0; r < rows_; ++r, from += outputs_count_) {
      for (int64_t o = 0; o < count; ++o) to[o * padded + r] = from[o];
    }
  }

  const bool bias_;
  const int64_t outputs_count_;
  const InputRows inputs_;
  const int64_t rows_, columns_;
  const onednn::Context context_;
  const std::string rows_key_ = Format("product rows %lld", static_cast<long long>(columns_));
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
