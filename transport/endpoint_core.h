#pragma once

#include "base/mutex.h"
#include "transport/grants.h"
#include "transport/transport.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// The state that every endpoint has, whatever carries its bytes: whether posts are accepted, who has ended the
/// connection, and which grants are open in each direction. What is queued to be sent belongs to the carrier.
///
///     kConnecting --Open--> kOpen --Close--> kClosed      EndHere, EndThere: within kOpen
///
/// A post asks the core first, and is handed to the carrier in the same critical section: so nothing is queued behind
/// the END, and the peer hears of grants in the order in which they were opened. What the peer says goes to the core
/// before it goes to the handler; a status other than ok names the rule that the peer broke, and changes nothing.
///
/// Each grant is ended by exactly one of GrantArrived, GrantCancelled and TakeGrants, and each grant of the peer used
/// by at most one of UseGrant and ReturnGrant, so that everything is reported once. To close: Close, then stop the
/// carrier (no byte may arrive or be read any more), then TakeGrants, then ReportClosed without the lock.
class EndpointCore {
 public:
  enum class State : uint8_t { kConnecting, kOpen, kClosed };

  /// @param name of the peer, for messages: "node 1", "conv1 (10.0.0.1:5000)".
  explicit EndpointCore(std::string name) : name_(std::move(name)) {}

  /// Guards all that is here, and what the endpoint keeps about the same grants and posts. No handler is called and no
  /// system call waits under it.
  mutable Mutex mutex;

  const std::string& name() const { return name_; }

  // --- States. open, closed and ended_there may be asked without the lock, by any thread.

  bool open() const { return state_ == State::kOpen; }
  bool closed() const { return state_ == State::kClosed; }
  /// @return false, and no effect: it was closed meanwhile.
  bool Open() HP_REQUIRES(mutex);
  /// @return what it was: the first caller alone sees another state than kClosed, and has to report.
  State Close() HP_REQUIRES(mutex);
  /// Our side posts nothing more. @return false, and no effect: posts were not accepted anyway.
  bool EndHere() HP_REQUIRES(mutex);
  bool ended_here() const HP_REQUIRES(mutex) { return ended_here_; }
  /// The peer sends nothing more.
  void EndThere() { ended_there_ = true; }
  bool ended_there() const { return ended_there_; }

  // --- Posts. Each returns kUnavailable unless posts are accepted: open, and not ended here.

  Status CheckOpen() const HP_REQUIRES(mutex);
  /// Opens a grant of `place` for the peer. @return what names it; kResourceExhausted: kMaxOpenGrants are open.
  StatusOr<RemoteGrant> Grant(const PlaceTag& tag, std::span<std::byte> place) HP_REQUIRES(mutex);
  /// Uses a grant of the peer up by a write of `bytes` bytes. @return where it goes; kInvalidArgument: the grant is not
  /// open, is for another tag, or is of another size.
  StatusOr<RemotePlace> UseGrant(const PlaceTag& tag, RemoteGrant grant, size_t bytes) HP_REQUIRES(mutex);
  /// Uses a grant of the peer up without a write. @return kInvalidArgument: it is not open.
  Status ReturnGrant(RemoteGrant grant) HP_REQUIRES(mutex);
  /// Whether a message of `bytes` bytes may be queued. @return kInvalidArgument: it is too long.
  Status CheckMessage(size_t bytes) const HP_REQUIRES(mutex);

  // --- What the peer says. kInvalidArgument: it broke a rule.

  /// The peer grants us `bytes` bytes at `place`.
  Status AddGrant(const PlaceTag& tag, RemoteGrant grant, uint64_t bytes, const RemotePlace& place = {})
      HP_REQUIRES(mutex);
  /// All bytes of a place are there. @return the tag of its grant, which has ended.
  StatusOr<PlaceTag> GrantArrived(RemoteGrant grant) HP_REQUIRES(mutex);
  /// The peer gave a grant back, to which it has written nothing. @return likewise.
  StatusOr<PlaceTag> GrantCancelled(RemoteGrant grant) HP_REQUIRES(mutex);
  /// For carriers that receive a place in pieces.
  GrantTable& grants() HP_REQUIRES(mutex) { return grants_; }

  // --- Closing

  /// Ends all grants that are open still. @return their tags, in the order of their slots.
  std::vector<PlaceTag> TakeGrants() HP_REQUIRES(mutex);

 private:
  const std::string name_;
  std::atomic<State> state_ = State::kConnecting;  // set under the lock
  std::atomic<bool> ended_there_ = false;
  bool ended_here_ HP_GUARDED_BY(mutex) = false;
  GrantTable grants_ HP_GUARDED_BY(mutex);
  RemoteGrantTable remote_ HP_GUARDED_BY(mutex);
};

/// Tells `handler` that the connection to `peer` has ended with `status`: first each of `grants`, then each of
/// `writes`, which were open, then OnClosed. Progress thread, without a lock.
void ReportClosed(TransportHandler* handler, Rank peer, const std::vector<PlaceTag>& grants,
                  const std::vector<PlaceTag>& writes, const Status& status);

}  // namespace hp
