#pragma once

#include "transport/wire.h"

#include <span>
#include <string>

namespace hp {

/// A peer written by hand over a blocking socket, which says what the test wants, right or wrong.
class WirePeer {
 public:
  /// Connects to `port` of 127.0.0.1.
  explicit WirePeer(int port);
  ~WirePeer();
  WirePeer(const WirePeer&) = delete;
  WirePeer& operator=(const WirePeer&) = delete;

  void Send(std::span<const std::byte> bytes);
  void Send(const std::string& bytes);
  void SendRecord(const Preamble& preamble, const std::string& body);
  void SendFrame(FrameHeader header, const std::string& payload = "");
  /// HELLO, answer, READY.
  void ShakeHands(const std::string& hello);

  /// Exactly `bytes` bytes; fewer at the end of the stream.
  std::string Receive(size_t bytes);
  /// A record's body; `*kind` tells what it was. Empty at the end of the stream.
  std::string ReceiveRecord(RecordKind* kind);
  FrameHeader ReceiveFrameHeader();
  /// Whether the other side has closed, after waiting for that or for bytes.
  bool Closed() { return Receive(1).empty(); }

 private:
  int fd_;
};

}  // namespace hp
