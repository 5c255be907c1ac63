// One readv for each frame of a stream of them: the rest of the payload under way goes to its place, and the next
// header behind it. Between frames, if a small write is probably next, its place is guessed: header, place and the
// header after it are read in one call. After a wrong guess the bytes are moved out of the place (ahead_) and
// interpreted again before any handler is called.
#include "transport/tcp/frame_receiver.h"

#include "transport/transport.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

// Only smaller places are guessed: what was wrongly guessed is copied, and a large write does not need the gain.
constexpr size_t kMaxGuess = 16 << 10;

}  // namespace

StatusOr<FrameReceiver::Result> FrameReceiver::Receive(size_t budget) {
  Result result;
  while (result.bytes < budget) {
    size_t wanted = 0;
    const ByteStream::ReadResult read = ReadSome(NextRanges(), &wanted);
    if (read.arrived > 0) sink_->OnBytes();
    if (read.state == ByteStream::State::kFailed) return Unavailable("%s", read.status.message().c_str());
    if (read.state == ByteStream::State::kEnd) {
      result.outcome = Outcome::kEnd;
      return result;
    }
    const size_t bytes = read.bytes;
    if (bytes == 0) return result;
    result.bytes += bytes;
    HP_RETURN_IF_ERROR(guess_.rest.empty() ? Advance(bytes) : AdvanceGuess(bytes));
    // Less than asked for: the socket was empty. What has come since then, and an end of stream, shows at the next
    // call.
    if (bytes < wanted) return result;
  }
  result.outcome = Outcome::kMore;
  return result;
}

/// With a payload under way: its rest, and the next header. Between frames: a header, and if a small write is probably
/// next, its place and the header behind it, since a second system call for the payload costs it a microsecond.
FrameReceiver::Ranges FrameReceiver::NextRanges() {
  const std::span<std::byte> header = std::span<std::byte>(header_bytes_).subspan(header_filled_);
  guess_ = {};
  if (in_payload_) return {payload_, header};
  if (header_filled_ > 0) return {header};
  if (!stream_.encrypted()) guess_ = sink_->GuessWrite();
  if (guess_.offset + guess_.rest.size() > kMaxGuess) guess_ = {};
  if (guess_.rest.empty()) return {header};
  return {header, guess_.rest, next_header_};
}

ByteStream::ReadResult FrameReceiver::ReadSome(const Ranges& ranges, size_t* wanted) {
  iovec iov[ByteStream::kMaxRanges];
  size_t count = 0;
  for (std::span<std::byte> range : ranges) {
    if (range.empty()) continue;
    iov[count++] = {range.data(), range.size()};
    *wanted += range.size();
  }
  return stream_.Read({iov, count});
}

Status FrameReceiver::Advance(size_t bytes) {
  if (in_payload_) {
    const size_t of_payload = std::min(bytes, payload_.size());
    payload_ = payload_.subspan(of_payload);
    bytes -= of_payload;
    if (!payload_.empty()) return OkStatus();
    in_payload_ = false;
    HP_RETURN_IF_ERROR(EndFrame());
  }
  header_filled_ += bytes;
  if (header_filled_ < header_bytes_.size()) return OkStatus();
  header_filled_ = 0;
  return BeginFrame();
}

Status FrameReceiver::AdvanceGuess(size_t bytes) {
  if (bytes < header_bytes_.size()) return Advance(bytes);
  bytes -= header_bytes_.size();
  const size_t in_place = std::min(bytes, guess_.rest.size());
  const StatusOr<FrameHeader> header = DecodeFrameHeader(header_bytes_);
  const bool right = header.ok() && header->type == FrameType::kData && header->index == guess_.grant.index &&
                     header->generation == guess_.grant.generation && header->at == guess_.offset;
  const size_t of_payload = right ? std::min<size_t>(in_place, header->length) : 0;
  // The rest leaves the place before anything is told: a handler may be told that the place is its own again.
  const std::span<std::byte> astray = guess_.rest.subspan(of_payload, in_place - of_payload);
  ahead_.assign(astray.begin(), astray.end());
  ahead_.insert(ahead_.end(), next_header_.begin(), next_header_.begin() + (bytes - in_place));
  HP_RETURN_IF_ERROR(BeginFrame());
  if (of_payload > 0) HP_RETURN_IF_ERROR(Advance(of_payload));
  return Feed(ahead_);
}

Status FrameReceiver::Feed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> to =
        in_payload_ ? payload_ : std::span<std::byte>(header_bytes_).subspan(header_filled_);
    const size_t part = std::min(to.size(), bytes.size());
    std::memcpy(to.data(), bytes.data(), part);
    bytes = bytes.subspan(part);
    HP_RETURN_IF_ERROR(Advance(part));
  }
  return OkStatus();
}

Status FrameReceiver::BeginFrame() {
  const StatusOr<FrameHeader> header = DecodeFrameHeader(header_bytes_);
  if (!header.ok()) return ProtocolError(header.status());
  frame_ = *header;
  if (in_message_ && (frame_.type != FrameType::kMessage || frame_.index != message_type_)) {
    return ProtocolError(InvalidArgument("a frame of type %d within a message", static_cast<int>(frame_.type)));
  }
  if (frame_.type == FrameType::kData) {
    const StatusOr<std::span<std::byte>> place = sink_->PlaceFor(frame_);
    if (!place.ok()) return ProtocolError(place.status());
    payload_ = *place;
  } else if (frame_.type == FrameType::kMessage) {
    const size_t before = in_message_ ? message_.size() : 0;
    if (before + frame_.length > kMaxMessageBytes) {
      return ProtocolError(InvalidArgument("a message of more than %zu bytes", kMaxMessageBytes));
    }
    message_.resize(before + frame_.length);
    payload_ = std::span<std::byte>(message_).subspan(before);
    message_type_ = frame_.index;
    in_message_ = frame_.more;
  }
  if (payload_.empty()) return EndFrame();
  in_payload_ = true;
  return OkStatus();
}

Status FrameReceiver::EndFrame() {
  if (in_message_) return OkStatus();
  const bool message = frame_.type == FrameType::kMessage;
  const Status status = sink_->OnFrame(frame_, message ? std::span<const std::byte>(message_) : std::span<std::byte>());
  return status.ok() ? status : ProtocolError(status);
}

}  // namespace hp
