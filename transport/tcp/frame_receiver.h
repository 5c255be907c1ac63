#pragma once

#include "hp/status.h"
#include "transport/transport.h"
#include "transport/wire.h"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace hp {

/// What a FrameReceiver asks and tells its endpoint.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Bytes arrived; before what they mean.
  virtual void OnBytes() = 0;
  /// The rest of the place that is probably written next, where what follows an unknown header is received. A place is
  /// the transport's to scribble on from its grant to its end.
  struct Guess {
    RemoteGrant grant;
    uint64_t offset = 0;
    std::span<std::byte> rest;  ///< empty: no telling
  };
  virtual Guess GuessWrite() = 0;
  /// @return where exactly the payload of this DATA frame goes, or which rule the frame breaks.
  virtual StatusOr<std::span<std::byte>> PlaceFor(const FrameHeader& header) = 0;
  /// A frame is there whole. @param message the whole message, with the last fragment of one.
  /// @return which rule the frame breaks.
  virtual Status OnFrame(const FrameHeader& header, std::span<const std::byte> message) = 0;
};

/// Turns the bytes of a socket into frames; payloads of DATA frames are received where they belong. One thread.
class FrameReceiver {
 public:
  /// @param fd a connected non-blocking socket.
  FrameReceiver(int fd, FrameSink* sink) : fd_(fd), sink_(sink) {}

  enum class Outcome {
    kDrained,  ///< the socket is empty
    kMore,     ///< `budget` is used up
    kEnd,      ///< end of stream, at a frame's boundary or not
  };
  struct Result {
    Outcome outcome = Outcome::kDrained;
    size_t bytes = 0;
  };
  /// Receives about `budget` bytes at most. @return kUnavailable: the socket failed, or the peer broke a rule.
  StatusOr<Result> Receive(size_t budget);

 private:
  using Ranges = std::array<std::span<std::byte>, 3>;

  Ranges NextRanges();
  StatusOr<size_t> ReadSome(const Ranges& ranges, size_t* wanted);
  Status Advance(size_t bytes);
  Status AdvanceGuess(size_t bytes);
  Status Feed(std::span<const std::byte> bytes);
  Status BeginFrame();
  Status EndFrame();

  const int fd_;
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
