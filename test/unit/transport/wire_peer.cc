#include "test/unit/transport/wire_peer.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace hp {

WirePeer::WirePeer(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  PCHECK(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  const timeval patience = {20, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

WirePeer::~WirePeer() { close(fd_); }

// The other side may close at any time, as it should with what some tests send.
void WirePeer::Send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes = bytes.subspan(sent);
  }
}

void WirePeer::Send(const std::string& bytes) { Send(std::as_bytes(std::span(bytes))); }

void WirePeer::SendRecord(const Preamble& preamble, const std::string& body) {
  Send(EncodePreamble(preamble));
  Send(body);
}

void WirePeer::SendFrame(FrameHeader header, const std::string& payload) {
  header.length = static_cast<uint32_t>(payload.size());
  FrameHeaderBytes bytes;
  EncodeFrameHeader(header, bytes.data());
  Send(bytes);
  Send(payload);
}

void WirePeer::ShakeHands(const std::string& hello) {
  SendRecord({.kind = RecordKind::kHello, .length = static_cast<uint32_t>(hello.size())}, hello);
  RecordKind kind;
  ReceiveRecord(&kind);
  CHECK(kind == RecordKind::kHello);
  SendRecord({.kind = RecordKind::kReady}, "");
}

std::string WirePeer::Receive(size_t bytes) {
  std::string received(bytes, '\0');
  size_t filled = 0;
  while (filled < bytes) {
    const ssize_t got = recv(fd_, &received[filled], bytes - filled, 0);
    PCHECK(got >= 0 || errno == ECONNRESET);
    if (got <= 0) break;
    filled += got;
  }
  received.resize(filled);
  return received;
}

std::string WirePeer::ReceiveRecord(RecordKind* kind) {
  const std::string head = Receive(kPreambleBytes);
  if (head.size() < kPreambleBytes) return "";
  PreambleBytes bytes;
  std::memcpy(bytes.data(), head.data(), head.size());
  const StatusOr<Preamble> preamble = DecodePreamble(bytes);
  CHECK(preamble.ok()) << preamble.status();
  *kind = preamble->kind;
  return Receive(preamble->length);
}

FrameHeader WirePeer::ReceiveFrameHeader() {
  const std::string head = Receive(kFrameHeaderBytes);
  CHECK_EQ(head.size(), kFrameHeaderBytes);
  FrameHeaderBytes bytes;
  std::memcpy(bytes.data(), head.data(), head.size());
  const StatusOr<FrameHeader> header = DecodeFrameHeader(bytes);
  CHECK(header.ok()) << header.status();
  return *header;
}

}  // namespace hp
