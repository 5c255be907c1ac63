#pragma once

#include "hp/status.h"
#include "transport/verbs/device.h"
#include "transport/verbs/frames.h"
#include "transport/verbs/queue_pair.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hp {

/// Sends control frames over the control queue pair: as many whole frames as fit into each SEND, inline if possible,
/// else from a slot of registered memory. Push queues, Pump posts. Guarded by its endpoint's mutex; nothing blocks.
class ControlSender {
 public:
  /// Allocates and registers the slots. @param qp the control queue pair, which must outlive it.
  /// @return kResourceExhausted: the memory cannot be registered.
  static StatusOr<std::unique_ptr<ControlSender>> Create(const VerbsDevice& device, QueuePair* qp);
  /// Bounds the bytes of one SEND by what the peer's receive buffers hold (VerbsSetup::control_bytes); before any Push.
  void Limit(uint32_t peer_control_bytes);

  /// Queues a frame without payload.
  void Push(const FrameHeader& frame) { Append(frame, {}); }
  /// Queues a message (copied), in fragments if it does not fit into one SEND.
  /// @return kResourceExhausted: kMaxQueuedBytes wait already.
  Status PushMessage(uint32_t type, std::span<const std::byte> bytes);
  /// Posts what fits into the send queue and the slots; call again after OnCompletion.
  /// @param signal_last whether the last SEND of what is queued gets a completion, so that idle() becomes true.
  /// @return kUnavailable: the queue pair accepts no request.
  Status Pump(bool signal_last);
  /// The completion of request `id` came: it and all before it are done, and their slots free.
  void OnCompletion(uint64_t id);
  /// Whether everything pushed was sent and completed; it stays false until the last SEND was signalled.
  bool idle() const { return pending_.size() == sent_ && qp_->idle(); }

 private:
  ControlSender(QueuePair* qp, uint32_t slot_bytes);
  void Append(const FrameHeader& frame, std::span<const std::byte> payload);
  size_t NextBytes() const;
  bool AddRequest(bool last_is_signalled);

  static constexpr uint32_t kSlots = 32, kSignalEvery = 8;

  QueuePair* const qp_;
  uint32_t limit_;  // bytes of a SEND
  const uint32_t slot_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  MrHandle region_;
  std::vector<uint64_t> free_slots_;
  std::vector<std::byte> pending_;  // whole frames
  size_t sent_ = 0;                 // of pending_
  uint32_t unsignalled_ = 0;
  // The list under construction.
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> ranges_;
  std::vector<uint64_t> tags_;
};

}  // namespace hp
