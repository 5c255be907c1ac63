#pragma once

#include "backend/layout.h"
#include "backend/op.h"
#include "backend/strided_copy.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hp {

/// What Crop and Tile share: an input that is taken dense, through scratch if it is not.
/// @tparam Copies how a device copies: CopyLayout as ConcatOp's.
template <typename Copies>
class DenseInputOp : public Op {
 public:
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 protected:
  DenseInputOp(Copies copies, const TensorDesc& in)
      : copies_(std::move(copies)), in_(in), dense_{in.shape, 1, in.element}, foreign_(!SameOrder(in, dense_)) {
    if (foreign_) scratch_bytes_ = dense_.bytes();
  }
  const std::byte* DenseInput(const OpArgs& args) const {
    if (!foreign_) return static_cast<const std::byte*>(args.in[0].data);
    copies_.CopyLayout(in_, args.in[0].data, dense_, args.scratch);
    return args.scratch;
  }
  /// Calls write(dense gradient of the input), if it is wanted, and brings it into the input's layout.
  template <typename Write>
  void PutGradient(const OpArgs& args, const Write& write) const {
    void* const to = args.d_in[0].data;
    if (to == nullptr) return;
    std::byte* const dense = foreign_ ? args.scratch : static_cast<std::byte*>(to);
    write(dense);
    if (foreign_) copies_.CopyLayout(dense_, dense, in_, to);
  }

  const Copies copies_;
  const TensorDesc in_, dense_;
  const bool foreign_;
};

/// Backend::Crop for any device.
/// @tparam Copies how a device copies: as ScatterOp's, and
///   void CopyRuns(element, const StridedCopy&, from, to) const;
template <typename Copies>
class CropOp final : public DenseInputOp<Copies> {
 public:
  CropOp(Copies copies, const std::vector<int64_t>& offsets, const Shape& out, const std::vector<TensorDesc>& in)
      : DenseInputOp<Copies>(std::move(copies), in[0]), copy_(CopyOfBox(in[0].shape, out)), all_(in) {
    for (int axis = 0; axis < out.rank(); ++axis) offset_ += offsets[axis] * in[0].shape.count(axis + 1);
    offset_ *= static_cast<int64_t>(BytesOf(in[0].element));
    this->outputs_ = {{out, 1, in[0].element}};
  }

  void Forward(const OpArgs& args) override {
    this->copies_.CopyRuns(this->in_.element, copy_, this->DenseInput(args) + offset_,
                           static_cast<std::byte*>(args.out[0].data));
  }
  void BackwardInput(const OpArgs& args) override {
    this->PutGradient(args, [&](std::byte* dense) {
      this->copies_.Zero(this->dense_, dense);
      this->copies_.CopyRuns(this->in_.element, copy_.Reversed(), static_cast<const std::byte*>(args.d_out[0].data),
                             dense + offset_);
    });
    for (size_t i = 1; i < all_.size(); ++i) {
      if (args.d_in[i].data != nullptr) this->copies_.Zero(all_[i], args.d_in[i].data);
    }
  }

 private:
  const StridedCopy copy_;
  const std::vector<TensorDesc> all_;
  int64_t offset_ = 0;  // bytes
};

/// Backend::Tile for any device.
/// @tparam Copies as CropOp's, and one that adds up `parts` runs of `length` elements, in order, `count` times:
///   void SumRuns(element, count, parts, length, from, to) const;
template <typename Copies>
class TileOp final : public DenseInputOp<Copies> {
 public:
  TileOp(Copies copies, int axis, int64_t tiles, const TensorDesc& in)
      : DenseInputOp<Copies>(std::move(copies), in), outer_(in.shape.count(0, axis)), tiles_(tiles) {
    copy_.length = in.shape.count(axis);
    copy_.AddLoop(outer_, copy_.length, tiles * copy_.length);
    copy_.AddLoop(tiles, 0, copy_.length);
    this->outputs_ = {{in.shape.With(axis, in.shape[axis] * tiles), 1, in.element}};
  }

  void Forward(const OpArgs& args) override {
    this->copies_.CopyRuns(this->in_.element, copy_, this->DenseInput(args), static_cast<std::byte*>(args.out[0].data));
  }
  void BackwardInput(const OpArgs& args) override {
    this->PutGradient(args, [&](std::byte* dense) {
      this->copies_.SumRuns(this->in_.element, outer_, tiles_, copy_.length,
                            static_cast<const std::byte*>(args.d_out[0].data), dense);
    });
  }

 private:
  const int64_t outer_, tiles_;
  StridedCopy copy_;
};

}  // namespace hp
