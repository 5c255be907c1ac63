#pragma once

#include "hp/status.h"
#include "transport/connect/byte_stream.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace hp {

/// The endpoint's side of a FrameReceiver: it says where payloads go and gets the frames. Called from
/// FrameReceiver::Receive, on its thread. An error names the rule that a frame breaks, and ends the connection.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Bytes have arrived; called before they are interpreted.
  virtual void OnBytes() = 0;
  /// The place that is probably written next: the bytes behind an unread header are received there, which saves a
  /// system call if the guess is right. A wrong guess leaves garbage in the place, which is allowed between its grant
  /// and its end.
  struct Guess {
    RemoteGrant grant;
    uint64_t offset = 0;        ///< of `rest` in the place, in bytes
    std::span<std::byte> rest;  ///< the part not yet written; empty: no guess
  };
  /// Asked between frames.
  virtual Guess GuessWrite() = 0;
  /// @return where the payload of this DATA frame goes, header.length bytes; kInvalidArgument: the frame breaks a rule.
  virtual StatusOr<std::span<std::byte>> PlaceFor(const FrameHeader& header) = 0;
  /// A frame is complete; of a message in fragments only the last one is reported.
  /// @param message for MESSAGE frames: the whole message, valid during the call. @return kInvalidArgument: as above.
  virtual Status OnFrame(const FrameHeader& header, std::span<const std::byte> message) = 0;
};

/// Reads frames from a stream. Payloads of DATA frames are received directly into their places. One thread (the
/// progress thread). transport/README.md, "Frames" and "Receiving without a copy".
class FrameReceiver {
 public:
  /// @param stream,sink outlive it.
  FrameReceiver(ByteStream* stream, FrameSink* sink) : stream_(*stream), sink_(sink) {}

  enum class Outcome {
    kDrained,  ///< nothing can be read without waiting
    kMore,     ///< `budget` is used up; call again
    kEnd,      ///< the peer ended the stream, between frames or within one
  };
  struct Result {
    Outcome outcome = Outcome::kDrained;
    size_t bytes = 0;  ///< received by this call
  };
  /// Receives what is there, about `budget` bytes at most, and calls the sink for each frame. Never blocks.
  /// @return kUnavailable: the socket failed, or the peer broke a rule of the protocol; do not call again.
  StatusOr<Result> Receive(size_t budget);

 private:
  using Ranges = std::array<std::span<std::byte>, 3>;

  Ranges NextRanges();
  ByteStream::ReadResult ReadSome(const Ranges& ranges, size_t* wanted);
  Status Advance(size_t bytes);
  Status AdvanceGuess(size_t bytes);
  Status Feed(std::span<const std::byte> bytes);
  Status BeginFrame();
  Status EndFrame();

  ByteStream& stream_;
  FrameSink* const sink_;
  FrameHeaderBytes header_bytes_;
  size_t header_filled_ = 0;  // of the next frame, also while a payload is under way
  FrameHeader frame_;         // the one whose payload is under way
  bool in_payload_ = false;
  std::span<std::byte> payload_;  // the rest of it
  FrameSink::Guess guess_;        // with a rest: the call under way reads a header, the guess, and next_header_
  FrameHeaderBytes next_header_;
  std::vector<std::byte> ahead_;  // what came behind a header and was not the guessed write
  std::vector<std::byte> message_;
  bool in_message_ = false;  // fragments came, more follow
  uint32_t message_type_ = 0;
};

}  // namespace hp
