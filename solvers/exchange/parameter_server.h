#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "solvers/exchange/peer_links.h"
#include "tensor/buffer.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// A parameter server's side: keeps a place for the gradient of each replica, says when those of all are here, and
/// sends the updated values to every replica that lets them in. It has no thread and waits for nobody. The update
/// itself is its owner's, who adds the gradients in the order of replicas, so that bits do not depend on arrival.
///
/// Use, for each parameter and update:
///   on_gradients(t, 7)                                       // all replicas' are here
///   server->GradientOf(t, 7, r) for each r; server->Release(t, 7);   // their places are granted for a later update
///   server->Serve(t, 7, values);                             // goes to each replica that pulls it
class ParameterServer : private PeerEvents {
 public:
  /// What the server has of a parameter.
  struct Param {
    int param = 0;                              ///< the caller's number
    uint32_t number = 0;                        ///< ServedParam::Slice::number
    size_t count = 0;                           ///< elements here
    std::vector<std::span<float>> values = {};  ///< what Serve sends from, to be registered; host memory
  };
  struct Options {
    int replicas = 1;
    std::vector<Param> params;
    int64_t start_clock = 0, end_clock = 0;  ///< the first update of this run, and the one behind the last
    /// Updates whose gradients have places at once: how far replicas may run ahead of each other, and one.
    int ahead = 1;
  };
  /// Gradients of all replicas are here for the update, and values that were served so long ago that the update
  /// overwrites them have been sent. Once for each parameter and clock, in any order. On the links' thread, or within
  /// Serve; under no lock. Must not block.
  using GradientsSink = std::function<void(uint64_t clock, int param)>;

  /// Allocates and registers the places. @param links must outlive it.
  /// @return kResourceExhausted: out of memory; the error of PeerLinks::Register.
  static StatusOr<std::unique_ptr<ParameterServer>> Create(Options options, PeerLinks* links,
                                                           GradientsSink on_gradients);
  /// Of the memory that Create allocates.
  static size_t BytesFor(const Options& options);

  /// Grants the first places. Once, when all replicas are connected and on_gradients may be called.
  void Start();
  int replicas() const { return options_.replicas; }
  /// What replica `replica` sent for a parameter, [count] float32. Between on_gradients and Release.
  std::span<const float> GradientOf(uint64_t clock, int param, int replica) const;
  /// The gradients of the parameter have been used. Once for each parameter and clock; any thread.
  void Release(uint64_t clock, int param);
  /// Sends the values after update `clock` to all replicas, to each when it lets them in; they must not change before
  /// on_gradients of update clock + ahead. Once for each parameter and clock; any thread.
  /// @param values [count] float32, among Param::values.
  void Serve(uint64_t clock, int param, std::span<const float> values) HP_EXCLUDES(mutex_);

 private:
  using Update = std::pair<uint64_t, size_t>;  // clock, index into Options::params
  using Place = std::pair<int, LinkPlace>;     // of a replica
  ParameterServer(Options options, PeerLinks* links, GradientsSink on_gradients);
  size_t IndexOf(int param) const { return index_.at(param); }
  std::span<float> PlaceOf(uint64_t clock, size_t index, int replica) const;
  void Grant(uint64_t clock, size_t index);
  /// Whether on_gradients of an update is due; then it counts as called.
  bool TakeIfReady(const Update& update) HP_REQUIRES(mutex_);

  // PeerEvents; a link that breaks is the failure detector's business, which ends the job
  void OnGranted(int replica, const LinkPlace& place, const LinkGrant& grant) override HP_EXCLUDES(mutex_);
  void OnArrived(int replica, const LinkPlace& place) override HP_EXCLUDES(mutex_);
  void OnWritten(int replica, const LinkPlace& place) override HP_EXCLUDES(mutex_);
  void OnBroken(const Status&) override {}

  const Options options_;
  PeerLinks* const links_;
  const GradientsSink on_gradients_;
  std::map<int, size_t> index_;           // by the caller's number
  std::map<uint32_t, size_t> of_number_;  // likewise
  std::vector<size_t> begins_;            // by parameter: its first element among all
  size_t elements_ = 0;                   // of all parameters
  Buffer places_;                         // [ahead][replicas][elements]
  std::vector<std::shared_ptr<const void>> registered_;

  Mutex mutex_;                                               // not held while the links or a callback are called
  std::map<Update, int> arrived_ HP_GUARDED_BY(mutex_);       // replicas whose gradient is here
  std::map<Update, int> unsent_ HP_GUARDED_BY(mutex_);        // replicas whose values are not sent
  std::map<Place, LinkGrant> granted_ HP_GUARDED_BY(mutex_);  // for values, and not written yet
  std::map<Place, std::span<const float>> ready_ HP_GUARDED_BY(mutex_);  // to be written, and not granted yet
};

}  // namespace hp
