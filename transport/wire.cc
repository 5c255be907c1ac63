#include "transport/wire.h"

#include "transport/little_endian.h"
#include "transport/transport.h"

#include <cstring>

namespace hp {
namespace {

constexpr uint8_t kFlagMore = 1;

}  // namespace

PreambleBytes EncodePreamble(const Preamble& preamble) {
  PreambleBytes bytes;
  std::memcpy(bytes.data(), kWireMagic.data(), kWireMagic.size());
  StoreLittle<uint16_t>(&bytes[8], preamble.version);
  StoreLittle<uint16_t>(&bytes[10], static_cast<uint16_t>(preamble.kind));
  StoreLittle<uint32_t>(&bytes[12], preamble.length);
  return bytes;
}

StatusOr<Preamble> DecodePreamble(const PreambleBytes& bytes) {
  if (std::memcmp(bytes.data(), kWireMagic.data(), kWireMagic.size()) != 0) {
    return InvalidArgument("it does not speak our protocol");
  }
  Preamble preamble;
  preamble.version = LoadLittle<uint16_t>(&bytes[8]);
  preamble.kind = static_cast<RecordKind>(LoadLittle<uint16_t>(&bytes[10]));
  preamble.length = LoadLittle<uint32_t>(&bytes[12]);
  if (preamble.length > kMaxHelloBytes) {
    return InvalidArgument("it announced a handshake record of %u bytes, at most %zu are allowed", preamble.length,
                           kMaxHelloBytes);
  }
  return preamble;
}

Status ProtocolError(const Status& broken) { return Unavailable("protocol error: %s", broken.message().c_str()); }

void EncodeFrameHeader(const FrameHeader& header, std::byte* out) {
  StoreLittle<uint8_t>(out, static_cast<uint8_t>(header.type));
  StoreLittle<uint8_t>(out + 1, header.more ? kFlagMore : 0);
  StoreLittle<uint16_t>(out + 2, header.parts);
  StoreLittle<uint32_t>(out + 4, header.length);
  StoreLittle<uint32_t>(out + 8, header.index);
  StoreLittle<uint32_t>(out + 12, header.generation);
  StoreLittle<uint64_t>(out + 16, header.msg_id);
  StoreLittle<uint64_t>(out + 24, header.bytes);
  StoreLittle<uint64_t>(out + 32, header.at);
  StoreLittle<uint32_t>(out + 40, header.channel);
  StoreLittle<uint32_t>(out + 44, header.rkey);
}

StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* in = bytes.data();
  FrameHeader header;
  const uint8_t type = LoadLittle<uint8_t>(in), flags = LoadLittle<uint8_t>(in + 1);
  header.type = static_cast<FrameType>(type);
  header.more = flags & kFlagMore;
  header.parts = LoadLittle<uint16_t>(in + 2);
  header.length = LoadLittle<uint32_t>(in + 4);
  header.index = LoadLittle<uint32_t>(in + 8);
  header.generation = LoadLittle<uint32_t>(in + 12);
  header.msg_id = LoadLittle<uint64_t>(in + 16);
  header.bytes = LoadLittle<uint64_t>(in + 24);
  header.at = LoadLittle<uint64_t>(in + 32);
  header.channel = LoadLittle<uint32_t>(in + 40);
  header.rkey = LoadLittle<uint32_t>(in + 44);
  if (type < static_cast<uint8_t>(FrameType::kMessage) || type > static_cast<uint8_t>(FrameType::kEnd)) {
    return InvalidArgument("frame of unknown type %d", type);
  }
  const bool message = header.type == FrameType::kMessage;
  if (flags > (message ? kFlagMore : 0)) return InvalidArgument("frame of type %d with flags %#x", type, flags);
  if (header.length > kMaxFramePayload) {
    return InvalidArgument("frame of %u bytes, at most %zu are allowed", header.length, kMaxFramePayload);
  }
  if (header.length != 0 && !message && header.type != FrameType::kData) {
    return InvalidArgument("frame of type %d with a payload of %u bytes", type, header.length);
  }
  return header;
}

}  // namespace hp
