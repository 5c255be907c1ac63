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

/// Sends control frames over the control queue pair: as many as fit in each SEND, inline where that fits, else from a
/// slot of registered memory. Its endpoint's mutex guards it.
class ControlSender {
 public:
  /// @param qp outlives it. Registers its slots.
  static StatusOr<std::unique_ptr<ControlSender>> Create(const VerbsDevice& device, QueuePair* qp);
  /// The peer takes so much in one SEND.
  void Limit(uint32_t peer_control_bytes);

  void Push(const FrameHeader& frame) { Append(frame, {}); }
  /// @return kResourceExhausted: kMaxQueuedBytes wait already.
  Status PushMessage(uint32_t type, std::span<const std::byte> bytes);
  /// Posts what fits. @param signal_last ask for the completion of the last one, to know when all is done.
  /// @return kUnavailable: the queue pair takes none.
  Status Pump(bool signal_last);
  void OnCompletion(uint64_t id);
  /// Everything pushed has arrived, as far as completions were asked for.
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
