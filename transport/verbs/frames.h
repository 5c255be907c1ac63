#pragma once

#include "hp/status.h"
#include "transport/wire.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The bytes of the verbs transport's records and frames; transport/README.md, "Bytes over RDMA", says what they mean.
// All numbers are little-endian. Decoders take bytes of the peer, which are not trusted.
namespace hp {

/// The body of SETUP: what one side tells the other about itself before the queue pairs are connected.
struct VerbsSetup {
  std::string fault = {};      ///< why this side has no RDMA, UTF-8; if not empty the other fields are not set
  uint32_t epoch = 0;          ///< number of this connection in the sender's transport
  uint32_t control_bytes = 0;  ///< the most bytes of a SEND to this side, at least 256
  uint8_t mtu = 0;             ///< active MTU as an ibv_mtu: 1 (256 bytes) to 5 (4096)
  bool ethernet = true;        ///< link layer; false: InfiniBand
  uint16_t lid = 0;            ///< InfiniBand only
  uint8_t gid[16] = {};        ///< with librdmacm: the IP address, IPv4 mapped
  bool by_cm = false;          ///< whether librdmacm connects the queue pairs; both sides must say the same
  uint16_t cm_port = 0;        ///< where this side listens for librdmacm's requests; 0: it connects
  uint64_t cm_nonce = 0;       ///< random; connection requests to this side must carry it
  /// A queue pair.
  struct Qp {
    uint32_t number = 0;  ///< 24 bits
    uint32_t psn = 0;     ///< of its first packet, 24 bits
  };
  std::vector<Qp> qps = {};  ///< the control queue pair, then the data queue pairs
};
constexpr size_t kMaxDataQps = 16;  ///< to one peer

/// The private data of librdmacm's connection requests and their answers: identifies the queue pair and the connection.
struct CmHello {
  uint16_t index = 0;  ///< of the queue pair in VerbsSetup::qps
  uint32_t epoch = 0;  ///< the sender's VerbsSetup::epoch
  uint64_t nonce = 0;  ///< the receiver's VerbsSetup::cm_nonce
};
constexpr size_t kCmHelloBytes = 24;  ///< librdmacm leaves 56
/// @param out [kCmHelloBytes].
void EncodeCmHello(const CmHello& hello, std::byte* out);
/// @param bytes as received, with librdmacm's padding. @return kInvalidArgument: not sent by a node of this protocol
/// version.
StatusOr<CmHello> DecodeCmHello(std::span<const std::byte> bytes);

/// The body of a SETUP record.
std::string EncodeSetup(const VerbsSetup& setup);
/// @return kInvalidArgument: truncated, too long, or values out of range.
StatusOr<VerbsSetup> DecodeSetup(const std::string& bytes);

/// Takes the first frame off the bytes of a SEND on the control queue pair, which consists of whole frames.
/// @param bytes not empty; advanced behind the frame. @param payload set to the frame's payload, a part of `bytes`.
/// @return kInvalidArgument: no whole frame, or of a type that does not belong here.
StatusOr<FrameHeader> TakeControlFrame(std::span<const std::byte>* bytes, std::span<const std::byte>* payload);

// The immediate that ends a write on each data queue pair: index of the grant, and the lower 16 bits of its generation.
constexpr uint32_t EncodeImmediate(uint32_t index, uint32_t generation) { return index << 16 | (generation & 0xffff); }
constexpr uint32_t ImmediateIndex(uint32_t immediate) { return immediate >> 16; }
constexpr bool ImmediateFits(uint32_t immediate, uint32_t generation) {
  return (immediate & 0xffff) == (generation & 0xffff);
}

}  // namespace hp
