// Frames are appended to one byte string; each SEND takes as many whole frames off its front as fit. Inline SENDs need
// no memory after the post; others are copied to a slot, which is free again when a completion covers it. Every 8th
// SEND is signalled.
#include "transport/verbs/control_sender.h"

#include "transport/little_endian.h"
#include "transport/transport.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

constexpr uint64_t kNoSlot = ~uint64_t{0};

}  // namespace

ControlSender::ControlSender(QueuePair* qp, uint32_t slot_bytes)
    : qp_(qp), limit_(slot_bytes), slot_bytes_(slot_bytes), memory_(new std::byte[kSlots * slot_bytes]) {
  for (uint64_t slot = 0; slot < kSlots; ++slot) free_slots_.push_back(slot);
}

StatusOr<std::unique_ptr<ControlSender>> ControlSender::Create(const VerbsDevice& device, QueuePair* qp) {
  const uint32_t bytes = device.settings().control_bytes;
  std::unique_ptr<ControlSender> sender(new ControlSender(qp, bytes));
  HP_ASSIGN_OR_RETURN(sender->region_, RegisterHostMemory(device.verbs(), device.pd(), sender->memory_.get(),
                                                          size_t{kSlots} * bytes, 0));
  return sender;
}

void ControlSender::Limit(uint32_t peer_control_bytes) { limit_ = std::min(slot_bytes_, peer_control_bytes); }

void ControlSender::Append(const FrameHeader& frame, std::span<const std::byte> payload) {
  if (sent_ > 0 && sent_ * 2 >= pending_.size()) {  // move the rest to the front, seldom
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  const size_t at = pending_.size();
  pending_.resize(at + kFrameHeaderBytes);
  EncodeFrameHeader(frame, &pending_[at]);
  pending_.insert(pending_.end(), payload.begin(), payload.end());
}

Status ControlSender::PushMessage(uint32_t type, std::span<const std::byte> bytes) {
  const size_t queued = pending_.size() - sent_;
  if (queued + bytes.size() > kMaxQueuedBytes) return ResourceExhausted("%zu bytes wait to be sent", queued);
  const size_t most = limit_ - kFrameHeaderBytes;
  do {
    FrameHeader frame{.type = FrameType::kMessage, .index = type};
    frame.length = static_cast<uint32_t>(std::min(bytes.size(), most));
    frame.more = frame.length < bytes.size();
    Append(frame, bytes.first(frame.length));
    bytes = bytes.subspan(frame.length);
  } while (!bytes.empty());
  return OkStatus();
}

/// The size of the next SEND: as many whole frames as fit.
size_t ControlSender::NextBytes() const {
  size_t bytes = 0;
  while (sent_ + bytes < pending_.size()) {
    const size_t frame = kFrameHeaderBytes + LoadLittle<uint32_t>(&pending_[sent_ + bytes + 4]);
    if (bytes + frame > limit_) break;
    bytes += frame;
  }
  return bytes;
}

/// @return whether one was added: there were bytes, room, and a slot if one is needed.
bool ControlSender::AddRequest(bool signal_last) {
  const size_t bytes = NextBytes();
  const bool inlined = bytes <= qp_->inline_bytes();
  if (bytes == 0 || requests_.size() >= qp_->room() || (!inlined && free_slots_.empty())) return false;
  std::byte* from = &pending_[sent_];
  uint64_t slot = kNoSlot;
  if (!inlined) {
    slot = free_slots_.back();
    free_slots_.pop_back();
    from = memory_.get() + slot * slot_bytes_;
    std::memcpy(from, &pending_[sent_], bytes);
  }
  sent_ += bytes;
  const bool signalled = ++unsignalled_ >= kSignalEvery || (signal_last && sent_ == pending_.size());
  if (signalled) unsignalled_ = 0;
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND;
  request.send_flags = (inlined ? +IBV_SEND_INLINE : 0u) | (signalled ? +IBV_SEND_SIGNALED : 0u);
  request.num_sge = 1;
  requests_.push_back(request);
  ranges_.push_back({reinterpret_cast<uint64_t>(from), static_cast<uint32_t>(bytes), region_->lkey});
  tags_.push_back(slot);
  return true;
}

Status ControlSender::Pump(bool signal_last) {
  requests_.clear();
  ranges_.clear();
  tags_.clear();
  while (AddRequest(signal_last)) {
  }
  if (requests_.empty()) return OkStatus();
  for (size_t i = 0; i < requests_.size(); ++i) requests_[i].sg_list = &ranges_[i];
  return qp_->Post(requests_, tags_);
}

void ControlSender::OnCompletion(uint64_t id) {
  qp_->Retire(id, [this](uint64_t slot) {
    if (slot != kNoSlot) free_slots_.push_back(slot);
  });
}

}  // namespace hp
