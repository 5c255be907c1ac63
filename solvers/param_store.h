#pragma once

#include "backend/op.h"
#include "base/block.h"
#include "base/shape.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// One parameter of a node: which blob of the net it is, and which block of it is here.
struct StoredParam {
  std::string layer;
  int blob = 0;                       ///< 0: weights, 1: bias
  Shape whole;                        ///< of the whole blob, all shards together
  Block block = Block::Whole(whole);  ///< what is here
  float lr_mult = 1, decay_mult = 1;
  /// False: no gradient of this parameter is ever kept, because its update is fused into the product that makes it.
  bool keeps_gradient = true;

  std::string name() const { return layer + "." + std::to_string(blob); }  ///< "fc6.0"
  Shape local() const { return block.ShapeIn(whole); }
  /// Caffe computes no gradient for lr_mult 0 and leaves the weights alone.
  bool frozen() const { return lr_mult == 0; }
};

/// The one set of parameters of a node, shared by all its solvers: values, gradients and momentum histories, in the
/// order of the net, each in one arena. Every parameter starts at a multiple of 64 bytes. Executor thread, except for
/// reads of what nobody writes meanwhile. Frozen parameters have neither gradient nor history.
class ParamStore {
 public:
  /// Writes the initial values of the parameter's block, dense: FillParam of the layers room, with the filler found by
  /// the caller.
  using Filler = std::function<void(const StoredParam& param, float* out)>;

  /// All zeros, in the host's memory. `params` in the net's order; blocks must lie in their blobs (CHECK).
  explicit ParamStore(std::vector<StoredParam> params);
  /// The same in the memory of `device`, which must outlive it. @return kResourceExhausted: so much is not free there.
  static StatusOr<std::unique_ptr<ParamStore>> Create(Device* device, std::vector<StoredParam> params);

  int size() const { return static_cast<int>(params_.size()); }
  const StoredParam& param(int i) const { return params_[i]; }
  /// Elements that are here.
  int64_t count(int i) const { return counts_[i]; }
  /// The index of blob `blob` of `layer`, or -1.
  int Find(const std::string& layer, int blob) const;

  /// [count(i)], in the device's memory, as gradient and history; whoever writes values calls MarkUpdated.
  std::span<float> values(int i) const { return At(values_, values_at_[i], i); }
  /// [count(i)], or empty: frozen, or !keeps_gradient.
  std::span<float> gradient(int i) const { return At(gradients_, gradients_at_[i], i); }
  /// [count(i)], or empty: frozen.
  std::span<float> history(int i) const { return At(histories_, histories_at_[i], i); }

  /// What an op reads; the packed copies are shared by all ops of this parameter.
  ParamView View(int i) const { return {values(i).data(), versions_[i], packed_[i].get()}; }
  uint64_t version(int i) const { return versions_[i]; }
  /// Call after every change of values(i): packed copies of the old version are made anew when next wanted.
  void MarkUpdated(int i) { ++versions_[i]; }

  /// Copies of values and histories in the host's memory, and back. `to` and `from`: [count(i)]; a frozen parameter has
  /// no history to write, and reads as nothing. @return kInternal: the device failed.
  Status ReadValues(int i, std::span<float> to) const { return Read(values(i), to); }
  Status ReadHistory(int i, std::span<float> to) const { return Read(history(i), to); }
  Status WriteValues(int i, std::span<const float> from);
  Status WriteHistory(int i, std::span<const float> from) { return Write(history(i), from); }

  /// Initial values of all parameters. Errors as above.
  Status Fill(const Filler& filler);

  /// What the three arenas take.
  size_t bytes() const { return values_.bytes() + gradients_.bytes() + histories_.bytes(); }
  /// The same before anything is allocated, for a plan of memory.
  static size_t BytesFor(const std::vector<StoredParam>& params);

 private:
  /// A layout without memory yet.
  ParamStore(Device* device, std::vector<StoredParam> params);
  Status Read(std::span<const float> from, std::span<float> to) const;
  Status Write(std::span<float> to, std::span<const float> from);
  std::span<float> At(const Buffer& arena, int64_t offset, int i) const {
    if (offset < 0) return {};
    return {arena.floats() + offset, static_cast<size_t>(counts_[i])};
  }

  Device* device_ = nullptr;  // null: the host's memory
  std::vector<StoredParam> params_;
  std::vector<int64_t> counts_;
  std::vector<int64_t> values_at_, gradients_at_, histories_at_;  // in floats; -1: not there
  size_t values_bytes_ = 0, gradients_bytes_ = 0, histories_bytes_ = 0;
  Buffer values_, gradients_, histories_;
  std::vector<uint64_t> versions_;
  std::vector<std::unique_ptr<PackedParams>> packed_;
};

}  // namespace hp
