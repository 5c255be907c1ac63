#pragma once

#include "backend/op.h"
#include "backend/strided_copy.h"
#include "base/range.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hp {

/// Backend::Scatter for any device: copies ranges of channels to tensors of their own and, backward, their gradients
/// back into one.
/// @tparam Copies how a device copies: CopyPieces as ConcatOp's, and void Zero(desc, to) const.
template <typename Copies>
class ScatterOp final : public Op {
 public:
  ScatterOp(Copies copies, const std::vector<Range>& channels, const TensorDesc& in)
      : copies_(std::move(copies)), in_(in), channels_(channels) {
    int64_t covered = 0;
    for (const Range& range : channels_) {
      outputs_.push_back({in.shape.With(1, range.size()), 1});
      covered += range.size();
    }
    complete_ = covered == in.shape.dim(1);
  }

  void Forward(const OpArgs& args) override {
    std::vector<PieceCopy> copies;
    for (size_t i = 0; i < channels_.size(); ++i) {
      copies.push_back(
          {Length(i), Begin(args.in[0], i), stride(), static_cast<std::byte*>(args.out[i].data), Length(i)});
    }
    copies_.CopyPieces(ElementType::kFloat32, rows(), copies);
  }
  void BackwardInput(const OpArgs& args) override {
    const Tensor& d_in = args.d_in[0];
    if (d_in.data == nullptr) return;
    bool all = complete_;
    for (const Tensor& d_out : args.d_out) all = all && d_out.data != nullptr;
    if (!all) copies_.Zero(in_, d_in.data);
    std::vector<PieceCopy> copies;
    for (size_t i = 0; i < channels_.size(); ++i) {
      const auto* from = static_cast<const std::byte*>(args.d_out[i].data);
      if (from != nullptr) copies.push_back({Length(i), from, Length(i), Begin(d_in, i), stride()});
    }
    copies_.CopyPieces(ElementType::kFloat32, rows(), copies);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  int64_t rows() const { return in_.shape.dim(0); }
  int64_t stride() const { return in_.shape.count(1); }
  int64_t pixels() const { return in_.shape.count(2); }
  /// Elements of one row of output `i`.
  int64_t Length(size_t i) const { return channels_[i].size() * pixels(); }
  /// Where output `i` begins in row 0 of the input, or of its gradient.
  std::byte* Begin(const Tensor& whole, size_t i) const {
    return static_cast<std::byte*>(whole.data) + channels_[i].begin * pixels() * BytesOf(ElementType::kFloat32);
  }

  const Copies copies_;
  const TensorDesc in_;
  const std::vector<Range> channels_;
  bool complete_ = false;  // every channel of the input belongs to an output
};

}  // namespace hp
