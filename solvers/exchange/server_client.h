#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "solvers/exchange/peer_links.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// A replica's side of parameter servers: gradients go out, piece by piece to the servers that have the parameters, and
/// new values come in. It has no thread and waits for nobody: what is pushed leaves as soon as a server has granted its
/// place, and what is pulled arrives where the parameter is read.
///
/// Use, for each parameter and update:
///   client->Push(t, 7);   // its gradient is final here; on_sent(t, 7) follows: it may be written again
///   client->Pull(t, 7, values);   // nothing reads these any more; on_values(t, 7) follows: they are those after
///   update t
///
/// Owned by the node. Events come until the transport has stopped; the gradients and values must live so long.
class ServerClient : private PeerEvents {
 public:
  /// A parameter and where its pieces belong.
  struct Param {
    struct Piece {
      int server = 0;
      uint32_t number = 0;          ///< ServedParam::Slice::number
      size_t begin = 0, count = 0;  ///< elements of the parameter
    };
    int param = 0;                         ///< the caller's number
    std::span<float> gradient;             ///< [count of the parameter] float32, host memory
    std::vector<std::span<float>> values;  ///< likewise, of each version: where Pull may let them come in
    std::vector<Piece> pieces;             ///< together all of it
  };
  /// Both set. On the links' thread, or within Push; under no lock. Must not block.
  struct Callbacks {
    std::function<void(uint64_t clock, int param)> on_sent, on_values;
  };

  /// Registers gradients and values. @param links must outlive it. @return the error of PeerLinks::Register.
  static StatusOr<std::unique_ptr<ServerClient>> Create(std::vector<Param> params, PeerLinks* links,
                                                        Callbacks callbacks);

  /// Sends the gradient of a parameter for update `clock`; it must not be written before on_sent. Once for each
  /// parameter and clock, any thread.
  void Push(uint64_t clock, int param) HP_EXCLUDES(mutex_);
  /// Lets the values after update `clock` come in; from now on nobody reads or writes `values`, one of Param::values,
  /// until on_values. Once for each parameter and clock, any thread; the clocks in order.
  void Pull(uint64_t clock, int param, std::span<float> values) HP_EXCLUDES(mutex_);

 private:
  /// Pieces that are under way, by clock and index into params_.
  using Open = std::map<std::pair<uint64_t, size_t>, size_t>;
  struct PieceAt {
    size_t param = 0, piece = 0;
  };

  ServerClient(std::vector<Param> params, PeerLinks* links, Callbacks callbacks);
  size_t IndexOf(int param) const { return index_.at(param); }
  void Write(const PieceAt& at, const LinkPlace& place, const LinkGrant& grant);
  /// @return whether it was the last piece of its parameter.
  bool EndOne(Open* open, const LinkPlace& place) HP_EXCLUDES(mutex_);

  // PeerEvents; a link that breaks is the failure detector's business, which ends the job
  void OnGranted(int server, const LinkPlace& place, const LinkGrant& grant) override HP_EXCLUDES(mutex_);
  void OnArrived(int server, const LinkPlace& place) override;
  void OnWritten(int server, const LinkPlace& place) override;
  void OnBroken(const Status&) override {}

  const std::vector<Param> params_;
  PeerLinks* const links_;
  const Callbacks callbacks_;
  std::map<int, size_t> index_;         // by the caller's number
  std::map<uint32_t, PieceAt> pieces_;  // by number
  std::vector<std::shared_ptr<const void>> registered_;

  Mutex mutex_;                                                   // not held while the links or a callback are called
  std::map<LinkPlace, LinkGrant> granted_ HP_GUARDED_BY(mutex_);  // by servers, and not written yet
  std::map<LinkPlace, PieceAt> ready_ HP_GUARDED_BY(mutex_);      // to be written, and not granted yet
  Open sending_ HP_GUARDED_BY(mutex_), coming_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
