#pragma once

#include "backend/cpu/onednn.h"
#include "base/bfloat16.h"
#include "base/element_type.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace hp::onednn {

/// What Reorder does, for weights of a convolution: between Caffe's layout and the formats of oneDNN's primitives,
/// whose own copies of them reach 4 GB/s.
class WeightsReorder {
 public:
  WeightsReorder() = default;  ///< needed() is false
  /// @param from float32. @param to float32 or bfloat16, to which elements are rounded. Both of the same dims: [group,]
  /// outputs, inputs, height, width. @param can_add whether Run may add. Throws dnnl::error.
  WeightsReorder(const Context& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                 bool can_add = false);
  /// Whether the formats or types differ; a plain copy between equal ones must not be run.
  bool needed() const { return needed_; }
  /// Whether oneDNN does it: a format has padding, or says more than offsets.
  bool by_onednn() const { return !from_; }
  /// Whether pairs of bfloat16 are stored at once, kTile of them.
  bool by_pairs() const { return pairs_ != Pairs::kNone; }
  /// Whether vectors of float32 are stored, and mostly loaded, at once.
  bool by_squares() const { return squares_ != Squares::kNone; }
  /// By all threads of the team; done on return. `from` and `to` do not overlap.
  /// @param add to what stands in `to`, also between equal formats.
  void Run(Context* context, const void* from, void* to, bool add = false) const;

 private:
  /// Where an element lies: the sum of what each of its indices says, whatever blocks a format has.
  struct Offsets {
    std::vector<int32_t> of_group, of_output, of_rest;  // rest: inputs, height and width, the last one innermost
  };
  static std::optional<Offsets> OffsetsOf(const dnnl::memory::desc& desc);
  /// Of a format for products of pairs: kTile words of two neighbours along one axis lie one behind the other along
  /// another, as processors that multiply pairs of bfloat16 read them.
  enum class Pairs { kNone, kInputs, kOutputs };
  Pairs FindPairs() const;
  template <Pairs kPairs>
  void RunPairs(const float* from, BFloat16* to) const;
  /// Of two formats of float32 one has inputs and windows as Caffe's layout, the other a vector of inputs, or of
  /// outputs, side by side.
  enum class Squares { kNone, kPackInputs, kPackOutputs, kUnpackOutputs };
  Squares FindSquares() const;
  template <Squares kSquares>
  void RunSquares(const float* from, float* to, bool add) const;
  /// Calls body(group, first output, first of the rest, how much of the rest) for each tile, in parallel.
  template <typename Body>
  void ForEachTile(const Body& body) const;
  template <typename T>
  void RunTyped(const float* from, T* to, bool add) const;

  bool needed_ = false;
  std::optional<Offsets> from_, to_;  // both or neither
  int64_t window_ = 1;                // height by width
  int64_t rest_step_ = 1;             // of of_rest in a tile
  Pairs pairs_ = Pairs::kNone;        // of `to`
  Squares squares_ = Squares::kNone;
  ElementType element_ = ElementType::kFloat32;  // of `to`
  Reorder copy_, add_;                           // if by_onednn()
};

}  // namespace hp::onednn
