#pragma once

#include "backend/op.h"
#include "base/block.h"
#include "base/shape.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// One parameter blob as a node stores it: which blob of the net it is, and which block of it this node holds.
struct StoredParam {
  std::string layer;                  ///< name in the prototxt
  int blob = 0;                       ///< among the layer's blobs: 0: weights, 1: bias
  Shape whole;                        ///< of the whole blob, all shards together
  Block block = Block::Whole(whole);  ///< what this node holds of it, stored dense
  float lr_mult = 1, decay_mult = 1;  ///< Caffe's factors of learning rate and weight_decay
  /// False: the store allocates no gradient, because the update consumes it piece by piece as it is computed.
  bool keeps_gradient = true;
  /// False: it has no histories here, because parameter servers update it.
  bool keeps_histories = true;
  /// Above 0: an update changes so many of its rows at most, and the gradient is of these alone. 0: all of them.
  int64_t gradient_rows = 0;
  /// ParamSpec::average_keeps; set: it has no history.
  std::optional<float> average_keeps = {};
  /// HistoriesOf the solver.
  int solver_keeps = 1;

  std::string name() const { return layer + "." + std::to_string(blob); }  ///< "fc6.0"
  /// The shape of what this node holds.
  Shape local() const { return block.ShapeIn(whole); }
  /// Elements of its gradient: those of `block`, or of gradient_rows rows.
  int64_t gradient_count() const { return gradient_rows > 0 ? gradient_rows * block.cols() : block.count(); }
  /// Whether it is never updated: Caffe computes no gradient for lr_mult 0. It has values only.
  bool frozen() const { return lr_mult == 0; }
  /// How many histories the solver keeps of it, here or on parameter servers.
  int histories() const { return frozen() || average_keeps ? 0 : solver_keeps; }
};

/// The parameters of a node, one set shared by all its solvers: values, gradients and histories, float32, each in one
/// arena in the memory of the node's device. Parameters are indexed in the order of the net, and each starts at
/// a multiple of 64 bytes in its arena.
///
/// Values may be kept in several versions (staleness): version v, those after v updates, lies where version v -
/// versions did. Frozen ones have one for all. With one version its number does not matter.
///
/// Executor thread. Other threads may read what nobody writes meanwhile: the exchange owns a gradient from
/// Exchange::Add to on_exchanged, and snapshots copy values at a boundary. On a GPU the spans are addresses of its
/// memory: only ops and the copies below may touch them.
class ParamStore {
 public:
  /// Writes the initial values of a parameter's block to `out`: host memory, [count], dense.
  using Filler = std::function<void(const StoredParam& param, float* out)>;
  struct Versions {
    int kept = 1;       ///< at least 1
    int64_t first = 0;  ///< that is filled first
  };

  /// Zeroed, in the host's memory; CHECKs that there is enough: for small stores of tests. @param params in the order
  /// of the net; each block must lie in its blob (CHECK).
  explicit ParamStore(std::vector<StoredParam> params);
  /// The same in the memory of `device`, which must outlive the store.
  /// @return kResourceExhausted: the device is out of memory.
  static StatusOr<std::unique_ptr<ParamStore>> Create(Device* device, std::vector<StoredParam> params,
                                                      const Versions& versions = {1, 0});

  /// Number of parameters; an index `i` below goes from 0 to size() - 1.
  int size() const { return static_cast<int>(params_.size()); }
  const StoredParam& param(int i) const { return params_[i]; }
  /// Elements that this node holds.
  int64_t count(int i) const { return counts_[i]; }
  /// The index of blob `blob` of `layer`; -1: this node does not hold it. Linear in size().
  int Find(const std::string& layer, int blob) const;

  /// [count(i)], in the device's memory. Call MarkUpdated after writing to it.
  std::span<float> values(int i, int64_t version) const {
    return At(values_, values_at_[i] + SlotOf(i, version) * Rounded(counts_[i]), counts_[i]);
  }
  /// Of the latest version of all parameters, where none of them is being updated.
  std::span<float> values(int i) const { return values(i, latest_); }
  /// The latest version that a parameter was marked as updated to; at first Versions::first.
  int64_t latest() const { return latest_; }
  /// Versions that are kept.
  int versions() const { return kept_; }
  /// [gradient_count()], in the device's memory; empty: frozen, or keeps_gradient is false.
  std::span<float> gradient(int i) const { return At(gradients_, gradients_at_[i], params_[i].gradient_count()); }
  /// [count(i)], in the device's memory; empty: there are not so many of it, or keeps_histories is false.
  /// @param number of the history, from 1 to kMaxHistories.
  std::span<float> history(int i, int number) const {
    if (histories_at_[i] < 0 || number > params_[i].histories()) return {};
    return At(histories_, histories_at_[i] + (number - 1) * Rounded(counts_[i]), counts_[i]);
  }
  /// Values of a version, or one of the histories. @param number 0: the values; else as above.
  std::span<float> array(int i, int64_t version, int number) const {
    return number == 0 ? values(i, version) : history(i, number);
  }

  /// The parameter as an op reads it. Take a new view after an update: it contains the version. The packed copies
  /// belong to the store and are shared by all ops that read this parameter.
  ParamView View(int i, int64_t version) const {
    const size_t slot = static_cast<size_t>(SlotOf(i, version));
    return {values(i, version).data(), changes_[i][slot], packed_[i][slot].get()};
  }
  ParamView View(int i) const { return View(i, latest_); }
  /// Call after every change of values(i, version): packed copies of what was there are then made anew when an op asks
  /// for them.
  void MarkUpdated(int i, int64_t version);
  void MarkUpdated(int i) { MarkUpdated(i, latest_); }

  // Copies to and from host memory of exactly the size of the span (CHECK): [count(i)], or empty for a history that
  // is not kept. They block until all work that was put into Device::kCompute before is done.
  // @return kInternal: the device failed.
  Status ReadValues(int i, int64_t version, std::span<float> to) const { return Read(values(i, version), to); }
  Status ReadValues(int i, std::span<float> to) const { return Read(values(i), to); }
  Status ReadArray(int i, int64_t version, int number, std::span<float> to) const {
    return Read(array(i, version, number), to);
  }
  Status WriteValues(int i, std::span<const float> from);  ///< also marks the parameter as updated
  Status WriteHistory(int i, int number, std::span<const float> from) { return Write(history(i, number), from); }

  /// Writes the initial values of all parameters. @return kInternal: the device failed.
  Status Fill(const Filler& filler);

  /// Bytes of the three arenas.
  size_t bytes() const { return values_.bytes() + gradients_.bytes() + histories_.bytes(); }
  /// Bytes that a store of `params` will take; allocates nothing. @param versions kept of the values.
  static size_t BytesFor(const std::vector<StoredParam>& params, int versions = 1);

 private:
  /// A layout without memory yet.
  ParamStore(Device* device, std::vector<StoredParam> params, const Versions& versions);
  int SlotsOf(int i) const { return params_[i].frozen() ? 1 : kept_; }
  int64_t SlotOf(int i, int64_t version) const { return version % SlotsOf(i); }
  /// A parameter's room in an arena.
  static int64_t Rounded(int64_t count);
  Status AllocateOnHost(Device* device);
  Status Read(std::span<const float> from, std::span<float> to) const;
  Status Write(std::span<float> to, std::span<const float> from);
  static std::span<float> At(const Buffer& arena, int64_t offset, int64_t count) {
    if (offset < 0) return {};
    return {arena.floats() + offset, static_cast<size_t>(count)};
  }

  Device* device_ = nullptr;  // null: host memory
  std::vector<StoredParam> params_;
  std::vector<int64_t> counts_;
  const int kept_;
  int64_t latest_;
  std::vector<int64_t> values_at_, gradients_at_, histories_at_;  // offsets in floats; -1: the parameter has none
  size_t values_bytes_ = 0, gradients_bytes_ = 0, histories_bytes_ = 0;
  Buffer values_, gradients_, histories_;
  std::vector<std::vector<uint64_t>> changes_;                      // by parameter and slot: how often, from 1 up
  std::vector<std::vector<std::unique_ptr<PackedParams>>> packed_;  // by parameter and slot
};

}  // namespace hp
