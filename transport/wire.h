#pragma once

#include "hp/status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// The bytes on a stream connection, and of the frames on an RDMA control queue pair. transport/README.md has the tables
// and what follows on what; here is only how they are written and read. All numbers are little-endian, no struct is
// sent as it lies in memory. What is decoded comes from a peer and may be anything: every Decode checks what can be
// checked without a connection's state. All functions may be called from any thread.
namespace hp {

constexpr std::array<char, 8> kWireMagic = {'H', 'P', 'N', 'O', 'D', 'E', '\r', '\n'};
constexpr uint16_t kWireVersion = 2;

/// The kinds of records: those of the handshake, and those by which two nodes set RDMA up and end it.
enum class RecordKind : uint16_t {
  kHello = 1,    ///< body: the policy's hello
  kReady = 2,    ///< no body: the connecting side accepts
  kRefusal = 3,  ///< body: why, as text
  kSetup = 4,    ///< verbs: body: VerbsSetup
  kUp = 5,       ///< verbs: body: empty, or why it could not be set up
  kLast = 6,     ///< verbs: no body: this end is closed in order
  kNonce = 7,    ///< body: 32 random bytes, ahead of the hellos where there is a token
};

/// What a record begins with. Its layout holds for all protocol versions.
struct Preamble {
  uint16_t version = kWireVersion;
  RecordKind kind = RecordKind::kHello;
  uint32_t length = 0;  ///< of the body that follows
};
constexpr size_t kPreambleBytes = 16;
using PreambleBytes = std::array<std::byte, kPreambleBytes>;

PreambleBytes EncodePreamble(const Preamble& preamble);
/// Reads what EncodePreamble wrote. The kind may be one that nobody knows.
/// @return kInvalidArgument: no hpnode speaks there (magic), or a body longer than kMaxHelloBytes. A foreign version is
/// no error here.
StatusOr<Preamble> DecodePreamble(const PreambleBytes& bytes);

enum class FrameType : uint8_t {
  kMessage = 1,  ///< a small message, or a fragment of one
  kGrant = 2,    ///< the receiver may write one place of the sender's, once
  kData = 3,     ///< TCP: bytes for a granted place
  kCancel = 4,   ///< the sender gives a grant back that it did not use
  kEnd = 5,      ///< the sender sends nothing more
};

/// What stands before each frame's payload, over TCP and, without kData, on an RDMA control queue pair.
struct FrameHeader {
  FrameType type = FrameType::kEnd;
  bool more = false;        ///< kMessage: a further fragment of the same message follows
  uint16_t parts = 0;       ///< RDMA, kGrant: data queue pairs to use, and so immediates to expect
  uint32_t length = 0;      ///< payload bytes behind the header
  uint32_t index = 0;       ///< kGrant, kData, kCancel: of the grant; kMessage: the caller's type
  uint32_t generation = 0;  ///< of the grant
  uint64_t msg_id = 0;      ///< kGrant: of its tag
  uint64_t bytes = 0;       ///< kGrant, kData: of the whole place
  uint64_t at = 0;          ///< kData: offset of this payload in the place; RDMA, kGrant: address of the place
  uint32_t channel = 0;     ///< kGrant: of its tag
  uint32_t rkey = 0;        ///< RDMA, kGrant: of the place
};
constexpr size_t kFrameHeaderBytes = 48;
constexpr size_t kMaxFramePayload = 256 << 10;
using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

/// What an endpoint ends with when its peer breaks the rules of the wire: kUnavailable, "protocol error: ...".
/// @param broken the rule, as the function that saw it reports it.
Status ProtocolError(const Status& broken);

/// @param out kFrameHeaderBytes bytes. All fields are written, also those that the type does not use.
void EncodeFrameHeader(const FrameHeader& header, std::byte* out);
/// Reads what EncodeFrameHeader wrote.
/// @return kInvalidArgument: unknown type or flags, a payload that the type does not have, or one above
/// kMaxFramePayload.
StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace hp
