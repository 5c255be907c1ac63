#include "backend/cpu/rounded_products.h"

#include "backend/cpu/parallel.h"
#include "backend/cpu/rounding.h"
#include "base/format.h"

#include <algorithm>

namespace hp::onednn {
namespace {

constexpr ElementType kRounded = ElementType::kBFloat16;
constexpr int64_t kFillRows = 32;  // of a copy of W, by one thread
static_assert(kFillRows % PackedParams::kRowsTogether == 0);

/// Of a strip's y^T: that of a million classes would be as large as their scores. Strips that fit into the caches were
/// no faster, and where other programs run each of them waits for the slower thread.
constexpr int64_t kStripFloats = 4 << 20;

int64_t RoundedUp(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

MatrixProduct PieceProduct(const Context& context, const RoundedProducts::Sizes& sizes, bool add) {
  const int64_t padded = RoundedUp(sizes.rows, PairFormat::kRows);
  return MatrixProduct::OfOneThread(context, {RoundedProducts::kPieceRows, sizes.columns, padded},
                                    {padded, 1, kRounded}, {sizes.columns, 1, kRounded, /*packed=*/true},
                                    {sizes.columns, add});
}

MatrixProduct ForwardProduct(const Context& context, const RoundedProducts::Sizes& sizes, int64_t outputs, bool add) {
  return {context,
          {outputs, sizes.rows, sizes.columns},
          {sizes.k, 1, kRounded},
          {1, sizes.columns, kRounded},
          {sizes.rows, add}};
}

}  // namespace

RoundedProducts::RoundedProducts(const Context& context, const Sizes& sizes, bool add, bool input_gradient)
    : sizes_(sizes),
      context_(context),
      strip_(std::min(sizes.outputs, std::max<int64_t>(64, kStripFloats / sizes.rows / 64 * 64))),
      forward_(ForwardProduct(context, sizes, strip_, add)),
      set_(PieceProduct(context, sizes, false)),
      add_(PieceProduct(context, sizes, true)),
      x_pairs_(PairFormat::Of(set_.b_format(), sizes.rows)),
      rows_key_(Format("product rows %lld", static_cast<long long>(sizes.k))) {
  if (const int64_t last = sizes.outputs % strip_; last > 0) forward_last_ = ForwardProduct(context, sizes, last, add);
  if (!input_gradient) return;
  backward_ = {context,
               {sizes.rows, sizes.columns, sizes.outputs},
               {sizes.outputs, 1, kRounded},
               {sizes.columns, 1, kRounded, /*packed=*/true},
               {sizes.columns}};
  weight_pairs_ = PairFormat::Of(backward_->b_format(), sizes.outputs);
  pairs_key_ = Format("product from %lld ", static_cast<long long>(sizes.first)) + FormatName(backward_->b_format());
}

bool RoundedProducts::usable() const {
  const bool backward = !backward_ || (!backward_->is_reference() && weight_pairs_);
  const bool forward = !forward_.is_reference() && (!forward_last_ || !forward_last_->is_reference());
  return backward && forward && !set_.is_reference() && !add_.is_reference() && x_pairs_;
}

int64_t RoundedProducts::PaddedRows() const { return RoundedUp(sizes_.rows, PairFormat::kRows); }
size_t RoundedProducts::forward_bytes() const {
  return std::max(forward_.scratch_bytes(), forward_last_ ? forward_last_->scratch_bytes() : 0);
}
size_t RoundedProducts::panel_bytes() const { return AlignedBytes(1, set_.b_format().get_size()); }

void RoundedProducts::Forward(const ParamView& weights, int64_t begin, const BFloat16* x, float* transposed,
                              std::byte* scratch) const {
  const MatrixProduct& product = begin + strip_ > sizes_.outputs ? *forward_last_ : forward_;
  product.Run(context_, RoundedRows(weights) + begin * sizes_.k + sizes_.first, x, transposed, scratch);
}

void RoundedProducts::BackwardInput(const ParamView& weights, const BFloat16* d_out, float* d_x,
                                    std::byte* scratch) const {
  backward_->Run(context_, d_out, Pairs(weights), d_x, scratch);
}

void RoundedProducts::PackPanels(const BFloat16* x, BFloat16* panels) const {
  const int64_t blocks = PaddedRows() / PairFormat::kRows;
  ForItems(blocks, sizes_.rows * sizes_.columns, [&](int64_t block) {
    const int64_t begin = block * PairFormat::kRows, end = std::min(begin + PairFormat::kRows, sizes_.rows);
    x_pairs_->Write(x + begin * sizes_.columns, sizes_.columns, begin, end, /*cached=*/true, panels);
  });
}

// Two rows at a time: their numbers of one output are neighbours, and one store.
const BFloat16* RoundedProducts::GatherPiece(const float* d_out, int64_t begin, int64_t count) const {
  static thread_local std::vector<std::byte> buffer;
  constexpr int W = kMostLanes;
  static_assert(kPieceRows % W == 0);
  const int64_t pairs = PaddedRows() / 2;
  auto* const to = reinterpret_cast<uint32_t*>(ThreadRoom(kPieceRows * pairs * sizeof(uint32_t), &buffer));
  float lines[2][kPieceRows] = {};
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const float* from[2] = {lines[0], lines[1]};
    for (int64_t line = 0; line < 2; ++line) {
      const int64_t row = 2 * pair + line;
      if (row >= sizes_.rows) {
        std::fill_n(lines[line], kPieceRows, 0.0f);
      } else if (count == kPieceRows) {
        from[line] = d_out + row * sizes_.outputs + begin;
      } else {
        std::copy_n(d_out + row * sizes_.outputs + begin, count, lines[line]);
      }
    }
    for (int64_t first = 0; first < kPieceRows; first += W) {
      const WordVec<W> words = RoundedBits<W>(Load<W>(from[0] + first)) | RoundedBits<W>(Load<W>(from[1] + first))
                                                                              << 16;
      for (int o = 0; o < W; ++o) to[(first + o) * pairs + pair] = words[o];
    }
  }
  return reinterpret_cast<const BFloat16*>(to);
}

void RoundedProducts::AddPiece(const BFloat16* piece, const BFloat16* panels, bool add, float* sums) const {
  static thread_local std::vector<std::byte> buffer;
  const MatrixProduct& product = add ? add_ : set_;
  const Context of_thread = {context_.engine, dnnl::stream(context_.engine)};
  product.Run(of_thread, piece, panels, sums, ThreadRoom(product.scratch_bytes(), &buffer));
}

// W [outputs, k].
const BFloat16* RoundedProducts::RoundedRows(const ParamView& weights) const {
  const PackedParams::FillRows fill = [from = weights.data, k = sizes_.k](std::byte* to, int64_t begin, int64_t end) {
    RoundUncached(from + begin * k, (end - begin) * k, reinterpret_cast<BFloat16*>(to) + begin * k);
  };
  return reinterpret_cast<const BFloat16*>(
      CopyOfRows(weights, rows_key_, rows_bytes(), sizes_.outputs, sizes_.k, fill));
}

// W's columns of x as the second factor of dy W.
const BFloat16* RoundedProducts::Pairs(const ParamView& weights) const {
  const PackedParams::FillRows fill = [from = weights.data + sizes_.first, stride = sizes_.k, pairs = *weight_pairs_](
                                          std::byte* to, int64_t begin, int64_t end) {
    pairs.Write(from + begin * stride, stride, begin, end, /*cached=*/false, reinterpret_cast<BFloat16*>(to));
  };
  return reinterpret_cast<const BFloat16*>(
      CopyOfRows(weights, pairs_key_, pairs_bytes(), sizes_.outputs, sizes_.k, fill));
}

std::byte* ThreadRoom(size_t bytes, std::vector<std::byte>* buffer) {
  buffer->resize(std::max(buffer->size(), bytes + 64));
  const auto at = reinterpret_cast<uintptr_t>(buffer->data());
  return buffer->data() + (64 - at % 64) % 64;
}

std::byte* CopyOfRows(const ParamView& weights, const std::string& key, size_t bytes, int64_t outputs, int64_t k,
                      const PackedParams::FillRows& fill) {
  const auto whole = [outputs, k, fill](std::byte* to) {
    const int64_t pieces = (outputs + kFillRows - 1) / kFillRows;
    ForItems(pieces, outputs * k,
             [&](int64_t piece) { fill(to, piece * kFillRows, std::min((piece + 1) * kFillRows, outputs)); });
  };
  return weights.packed->Get(key, bytes, weights.version, whole, fill);
}

}  // namespace hp::onednn
