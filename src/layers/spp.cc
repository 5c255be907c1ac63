// Spatial pyramid pooling: poolings of one bottom, each flattened, side by side. Ops of the backend do the work; what
// lies between them is in the layer's saved and scratch memory.
#include "base/format.h"
#include "base/philox.h"
#include "layers/built_in_ops.h"
#include "layers/traits/own_phase.h"
#include "layers/traits/pyramid.h"
#include "proto/caffe.pb.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr size_t kAlign = 256;

/// Offsets of areas, one behind the other.
class Areas {
 public:
  size_t Add(size_t bytes) { return std::exchange(end_, end_ + (bytes + kAlign - 1) / kAlign * kAlign); }
  size_t end() const { return end_; }

 private:
  size_t end_ = 0;
};

class Pyramid final : public Op {
 public:
  struct Level {
    std::unique_ptr<Op> pool, flatten;
    size_t saved = 0, pooled = 0, flat = 0;     // in the saved area
    size_t d_flat = 0, d_pooled = 0, d_in = 0;  // in scratch
    const TensorDesc& pooled_desc() const { return pool->outputs()[0]; }
    const TensorDesc& flat_desc() const { return flatten->outputs()[0]; }
  };

  /// @param split from `in` to as many as there are levels: its gradient is their sum. @param concat of what they make.
  Pyramid(std::vector<Level> levels, std::unique_ptr<Op> split, std::unique_ptr<Op> concat, const TensorDesc& in)
      : levels_(std::move(levels)), split_(std::move(split)), concat_(std::move(concat)), in_(in) {
    outputs_ = concat_->outputs();
    Areas saved, scratch;
    size_t most = std::max(split_->scratch_bytes(), concat_->scratch_bytes());
    for (const Level& level : levels_)
      most = std::max({most, level.pool->scratch_bytes(), level.flatten->scratch_bytes()});
    scratch.Add(most);
    for (Level& level : levels_) {
      level.saved = saved.Add(level.pool->saved_bytes());
      level.pooled = saved.Add(level.pooled_desc().bytes());
      level.flat = saved.Add(level.flat_desc().bytes());
      level.d_flat = scratch.Add(level.flat_desc().bytes());
      level.d_pooled = scratch.Add(level.pooled_desc().bytes());
      level.d_in = scratch.Add(in_.bytes());
    }
    saved_bytes_ = saved.end();
    scratch_bytes_ = scratch.end();
  }

  void Forward(const OpArgs& args) override {
    std::vector<Tensor> flats;
    for (const Level& level : levels_) {
      const Tensor pooled = {level.pooled_desc(), args.saved + level.pooled};
      flats.push_back({level.flat_desc(), args.saved + level.flat});
      OpArgs inner = args;
      inner.saved = args.saved + level.saved;
      inner.out = {&pooled, 1};
      level.pool->Forward(inner);
      inner.in = {&pooled, 1};
      inner.out = {&flats.back(), 1};
      level.flatten->Forward(inner);
    }
    OpArgs inner = args;
    inner.in = flats;
    concat_->Forward(inner);
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    std::vector<Tensor> flats, d_flats, d_ins;
    for (const Level& level : levels_) {
      flats.push_back({level.flat_desc(), args.saved + level.flat});
      d_flats.push_back({level.flat_desc(), args.scratch + level.d_flat});
      d_ins.push_back({in_, args.scratch + level.d_in});
    }
    OpArgs inner = args;
    inner.in = flats;
    inner.d_in = d_flats;
    concat_->BackwardInput(inner);
    for (size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      const Tensor pooled = {level.pooled_desc(), args.saved + level.pooled};
      const Tensor d_pooled = {level.pooled_desc(), args.scratch + level.d_pooled};
      inner = args;
      inner.saved = args.saved + level.saved;
      inner.in = {&pooled, 1};
      inner.out = {&flats[i], 1};
      inner.d_out = {&d_flats[i], 1};
      inner.d_in = {&d_pooled, 1};
      level.flatten->BackwardInput(inner);
      inner.in = args.in;
      inner.out = {&pooled, 1};
      inner.d_out = {&d_pooled, 1};
      inner.d_in = {&d_ins[i], 1};
      level.pool->BackwardInput(inner);
    }
    inner = args;
    inner.out = d_ins;  // in the place of values, which it does not read
    inner.d_out = d_ins;
    split_->BackwardInput(inner);
  }
  bool backward_reads_input() const override { return levels_[0].pool->backward_reads_input(); }
  bool backward_reads_output() const override { return false; }

 private:
  std::vector<Level> levels_;
  const std::unique_ptr<Op> split_, concat_;
  const TensorDesc in_;
};

}  // namespace

StatusOr<LayerOp> MakeSppOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const std::vector<PyramidLevel> windows, PyramidOf(layer.param(), in[0].shape));
  PoolingDesc desc;
  if (layer.param().spp_param().pool() == caffe::SPPParameter::AVE) desc.method = PoolingDesc::kAve;
  if (layer.param().spp_param().pool() == caffe::SPPParameter::STOCHASTIC) desc.method = PoolingDesc::kStochastic;
  desc.train = OwnPhase(layer.param());
  std::vector<Pyramid::Level> levels(windows.size());
  std::vector<TensorDesc> flats;
  for (size_t i = 0; i < windows.size(); ++i) {
    const PyramidLevel& window = windows[i];
    desc.kernel_h = desc.stride_h = window.kernel_h, desc.kernel_w = desc.stride_w = window.kernel_w;
    desc.pad_h = window.pad_h, desc.pad_w = window.pad_w;
    desc.stream_key = StreamKey(context.seed, layer.name(), Format("pooling %zu", i));
    HP_ASSIGN_OR_RETURN(levels[i].pool, context.backend->Pooling(desc, in));
    if (windows.size() == 1) return std::move(levels[i].pool);
    const Shape flat = {in[0].shape[0], in[0].shape[1] * window.out_h * window.out_w};
    HP_ASSIGN_OR_RETURN(levels[i].flatten, context.backend->Flatten(flat, {levels[i].pooled_desc()}));
    flats.push_back(levels[i].flat_desc());
  }
  HP_ASSIGN_OR_RETURN(LayerOp split, context.backend->Split(static_cast<int>(windows.size()), in));
  HP_ASSIGN_OR_RETURN(LayerOp concat, context.backend->Concat(1, flats));
  return LayerOp(std::make_unique<Pyramid>(std::move(levels), std::move(split), std::move(concat), in[0]));
}

}  // namespace hp
