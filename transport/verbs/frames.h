#pragma once

#include "hp/status.h"
#include "transport/wire.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The bytes of the verbs transport; transport/README.md says what they mean. All numbers are little-endian.
namespace hp {

/// What one side tells the other about itself before the queue pairs are connected.
struct VerbsSetup {
  std::string fault = {};      ///< why this side has no RDMA; the rest is empty then
  uint32_t epoch = 0;          ///< counts the connections of this side's transport
  uint32_t control_bytes = 0;  ///< most that a SEND to this side may have
  uint8_t mtu = 0;             ///< as ibv_mtu has it
  bool ethernet = true;
  uint16_t lid = 0;
  uint8_t gid[16] = {};   ///< with librdmacm: the IP address, IPv4 mapped
  bool by_cm = false;     ///< the queue pairs are to be connected by librdmacm
  uint16_t cm_port = 0;   ///< where this side listens for that; 0: it doesn't, it is the one to connect
  uint64_t cm_nonce = 0;  ///< what connection requests to it must name, random
  struct Qp {
    uint32_t number = 0;
    uint32_t psn = 0;
  };
  std::vector<Qp> qps = {};  ///< the control queue pair, then the data queue pairs
};
constexpr size_t kMaxDataQps = 16;

/// The private data of a connection request of librdmacm: whose it is, and for what.
struct CmHello {
  uint16_t index = 0;  ///< of the queue pair in the set-ups
  uint32_t epoch = 0;  ///< of the connecting side
  uint64_t nonce = 0;  ///< of the side that listens
};
constexpr size_t kCmHelloBytes = 24;  // librdmacm leaves 56
void EncodeCmHello(const CmHello& hello, std::byte* out);
/// @param bytes as they came: librdmacm pads them. @return kInvalidArgument: nothing that a node sent.
StatusOr<CmHello> DecodeCmHello(std::span<const std::byte> bytes);

std::string EncodeSetup(const VerbsSetup& setup);
/// @return kInvalidArgument: cut off, too long, or not sensible.
StatusOr<VerbsSetup> DecodeSetup(const std::string& bytes);

/// A SEND on the control queue pair carries whole frames, one behind the other: takes the first off `*bytes`; its
/// payload, if any, goes to `*payload`. @return kInvalidArgument.
StatusOr<FrameHeader> TakeControlFrame(std::span<const std::byte>* bytes, std::span<const std::byte>* payload);

/// The immediate of the last work request on each data queue pair: which grant, and the low half of its generation.
constexpr uint32_t EncodeImmediate(uint32_t index, uint32_t generation) { return index << 16 | (generation & 0xffff); }
constexpr uint32_t ImmediateIndex(uint32_t immediate) { return immediate >> 16; }
constexpr bool ImmediateFits(uint32_t immediate, uint32_t generation) {
  return (immediate & 0xffff) == (generation & 0xffff);
}

}  // namespace hp
