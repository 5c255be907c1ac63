// How one socket carries control and bulk.
//
// Two queues: control (bytes of whole frames) and writes. Each sendmsg is assembled anew from both: the rest of a DATA
// frame that was sent in part, then all control, then DATA frames of the writes in turn, as far as the vector has room.
// So control passes bulk at the next frame boundary, many small frames share one system call, and no payload is copied.
// END is framed when nothing else is left.
//
// Whoever calls Flush first is the sender; it holds `sending_`, drops the lock for the system call, and sends what the
// others push meanwhile, so that a poster never waits for the kernel. What was assembled (control_out_, frames_, iov_)
// belongs to the sender and not to the lock. Commit then takes the number of bytes that the kernel took off the same
// order (over TLS, that was encrypted). A frame that was cut moves to frames_[0], and its write stays at the front
// until the frame's last byte is gone; a write has ended when its last frame has. Close shuts the socket down, which
// makes a sendmsg under way return, and waits for the sender: after it no source is read.
#include "transport/tcp/send_queue.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace hp {

void SendQueue::AppendControl(const FrameHeader& header, std::span<const std::byte> payload) {
  const size_t at = control_pending_.size();
  control_pending_.resize(at + kFrameHeaderBytes);
  EncodeFrameHeader(header, &control_pending_[at]);
  control_pending_.insert(control_pending_.end(), payload.begin(), payload.end());
}

void SendQueue::PushControl(const FrameHeader& header) {
  MutexLock lock(&mutex_);
  AppendControl(header, {});
}

Status SendQueue::PushMessage(uint32_t type, std::span<const std::byte> bytes, size_t most) {
  MutexLock lock(&mutex_);
  const size_t queued = control_pending_.size() + control_out_.size() - control_sent_;
  if (queued + bytes.size() > most) return ResourceExhausted("%zu bytes wait to be sent", queued);
  do {
    FrameHeader header{.type = FrameType::kMessage, .index = type};
    header.length = static_cast<uint32_t>(std::min(bytes.size(), kMaxFramePayload));
    header.more = header.length < bytes.size();
    AppendControl(header, bytes.first(header.length));
    bytes = bytes.subspan(header.length);
  } while (!bytes.empty());
  return OkStatus();
}

void SendQueue::PushWrite(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  MutexLock lock(&mutex_);
  writes_.push_back({tag, grant, source, 0});
}

void SendQueue::PushEnd() {
  MutexLock lock(&mutex_);
  end_queued_ = true;
}

void SendQueue::AddIov(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  iov_[iov_count_++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  iov_bytes_ += bytes.size();
}

void SendQueue::AddFrame(const Frame& frame) {
  const size_t of_header = std::min(frame.sent, frame.header.size());
  AddIov(std::span<const std::byte>(frame.header).subspan(of_header));
  AddIov(frame.payload.subspan(frame.sent - of_header));
}

void SendQueue::AssembleControl() {
  if (control_sent_ == control_out_.size()) {
    control_out_.clear();
    control_sent_ = 0;
    control_out_.swap(control_pending_);
  }
  const bool begun = first_frame_ == 0;
  if (end_queued_ && !end_framed_ && control_out_.empty() && writes_.empty() && !begun) {
    control_out_.resize(kFrameHeaderBytes);
    EncodeFrameHeader({.type = FrameType::kEnd}, control_out_.data());
    end_framed_ = true;
  }
  AddIov(std::span<const std::byte>(control_out_).subspan(control_sent_));
}

void SendQueue::AssembleFrames() {
  end_frame_ = 1;
  bool begun = first_frame_ == 0;
  for (const Write& write : writes_) {
    size_t offset = write.sent;
    bool done = false;
    if (std::exchange(begun, false)) {  // only the front write can have a frame under way
      offset += frames_[0].payload.size();
      done = frames_[0].last;
    }
    while (!done) {
      if (end_frame_ > kMaxFrames) return;
      Frame& frame = frames_[end_frame_++];
      frame.payload = write.source.subspan(offset, std::min(kMaxFramePayload, write.source.size() - offset));
      frame.sent = 0;
      EncodeFrameHeader({.type = FrameType::kData,
                         .length = static_cast<uint32_t>(frame.payload.size()),
                         .index = write.grant.index,
                         .generation = write.grant.generation,
                         .bytes = write.source.size(),
                         .at = offset},
                        frame.header.data());
      offset += frame.payload.size();
      done = frame.last = offset == write.source.size();
      AddFrame(frame);
    }
  }
}

bool SendQueue::Assemble() {
  iov_count_ = iov_bytes_ = 0;
  if (first_frame_ == 0) AddFrame(frames_[0]);
  AssembleControl();
  if (control_pending_.empty()) AssembleFrames();
  return iov_bytes_ > 0;
}

void SendQueue::FinishFrame(const Frame& frame) {
  Write& write = writes_.front();
  write.sent += frame.payload.size();
  if (!frame.last) return;
  ended_.push_back(write.tag);
  writes_.pop_front();
}

void SendQueue::Commit(size_t bytes) {
  if (first_frame_ == 0) {
    Frame& begun = frames_[0];
    const size_t take = std::min(bytes, begun.size() - begun.sent);
    begun.sent += take;
    bytes -= take;
    if (begun.sent < begun.size()) return;
    first_frame_ = 1;
    FinishFrame(begun);
  }
  const size_t control = std::min(bytes, control_out_.size() - control_sent_);
  control_sent_ += control;
  bytes -= control;
  for (size_t i = 1; i < end_frame_ && bytes > 0; ++i) {
    if (bytes < frames_[i].size()) {
      frames_[0] = frames_[i];
      frames_[0].sent = bytes;
      first_frame_ = 0;
      return;
    }
    bytes -= frames_[i].size();
    FinishFrame(frames_[i]);
  }
}

SendQueue::Outcome SendQueue::SendAll(size_t budget) {
  size_t total = 0;
  while (!closed_) {
    if (!Assemble() && !held_back_) {
      if (end_framed_) {
        shutdown(stream_.socket().native_handle(), SHUT_WR);
        end_sent_ = true;
      }
      return Outcome::kIdle;
    }
    if (total >= budget) return Outcome::kMore;
    mutex_.Unlock();
    const ByteStream::WriteResult written = stream_.Write({iov_.data(), iov_count_});
    mutex_.Lock();
    if (written.state != ByteStream::State::kOk) {
      error_ = written.status;
      return Outcome::kFailed;
    }
    held_back_ = written.blocked;
    total += written.bytes;
    if (written.bytes > 0) {
      Commit(written.bytes);
      last_sent_ns_ = clock_->NowNs();
    }
    if (written.blocked) {
      blocked_ = true;
      return Outcome::kBlocked;
    }
  }
  return Outcome::kIdle;
}

SendQueue::Outcome SendQueue::Flush(size_t budget) {
  MutexLock lock(&mutex_);
  if (closed_ || end_sent_) return Outcome::kIdle;
  if (!error_.ok()) return Outcome::kFailed;
  if (sending_) return Outcome::kBusy;
  if (blocked_) return Outcome::kBlocked;
  sending_ = true;
  const Outcome outcome = SendAll(budget);
  sending_ = false;
  idle_.SignalAll();
  return outcome;
}

void SendQueue::Unblock() {
  MutexLock lock(&mutex_);
  blocked_ = false;
}

std::vector<PlaceTag> SendQueue::TakeEnded() {
  MutexLock lock(&mutex_);
  return std::exchange(ended_, {});
}

bool SendQueue::has_ended() const {
  MutexLock lock(&mutex_);
  return !ended_.empty();
}

bool SendQueue::end_sent() const {
  MutexLock lock(&mutex_);
  return end_sent_;
}

Status SendQueue::error() const {
  MutexLock lock(&mutex_);
  return error_;
}

std::vector<PlaceTag> SendQueue::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  shutdown(stream_.socket().native_handle(), SHUT_RDWR);  // makes a sendmsg under way return
  while (sending_) idle_.Wait(&mutex_);
  std::vector<PlaceTag> unsent;
  for (const Write& write : writes_) unsent.push_back(write.tag);
  writes_.clear();
  control_pending_.clear();
  return unsent;
}

}  // namespace hp
