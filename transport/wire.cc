#include "transport/wire.h"

#include "transport/transport.h"

#include <cstring>

namespace hp {
namespace {

constexpr uint8_t kFlagMore = 1;

template <typename T>
void Store(std::byte* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename T>
T Load(const std::byte* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(in[i]) << (8 * i));
  return value;
}

}  // namespace

PreambleBytes EncodePreamble(const Preamble& preamble) {
  PreambleBytes bytes;
  std::memcpy(bytes.data(), kWireMagic.data(), kWireMagic.size());
  Store<uint16_t>(&bytes[8], preamble.version);
  Store<uint16_t>(&bytes[10], static_cast<uint16_t>(preamble.kind));
  Store<uint32_t>(&bytes[12], preamble.length);
  return bytes;
}

StatusOr<Preamble> DecodePreamble(const PreambleBytes& bytes) {
  if (std::memcmp(bytes.data(), kWireMagic.data(), kWireMagic.size()) != 0) {
    return InvalidArgument("it does not speak our protocol");
  }
  Preamble preamble;
  preamble.version = Load<uint16_t>(&bytes[8]);
  preamble.kind = static_cast<RecordKind>(Load<uint16_t>(&bytes[10]));
  preamble.length = Load<uint32_t>(&bytes[12]);
  if (preamble.length > kMaxHelloBytes) {
    return InvalidArgument("it announced a handshake of %u bytes, at most %zu are allowed", preamble.length,
                           kMaxHelloBytes);
  }
  return preamble;
}

void EncodeFrameHeader(const FrameHeader& header, std::byte* out) {
  Store<uint8_t>(out, static_cast<uint8_t>(header.type));
  Store<uint8_t>(out + 1, header.more ? kFlagMore : 0);
  Store<uint16_t>(out + 2, 0);
  Store<uint32_t>(out + 4, header.length);
  Store<uint32_t>(out + 8, header.index);
  Store<uint32_t>(out + 12, header.generation);
  Store<uint64_t>(out + 16, header.msg_id);
  Store<uint64_t>(out + 24, header.bytes);
  Store<uint64_t>(out + 32, header.offset);
  Store<uint32_t>(out + 40, header.port);
  Store<uint32_t>(out + 44, 0);
}

StatusOr<FrameHeader> DecodeFrameHeader(const FrameHeaderBytes& bytes) {
  const std::byte* in = bytes.data();
  FrameHeader header;
  const uint8_t type = Load<uint8_t>(in), flags = Load<uint8_t>(in + 1);
  header.type = static_cast<FrameType>(type);
  header.more = flags & kFlagMore;
  header.length = Load<uint32_t>(in + 4);
  header.index = Load<uint32_t>(in + 8);
  header.generation = Load<uint32_t>(in + 12);
  header.msg_id = Load<uint64_t>(in + 16);
  header.bytes = Load<uint64_t>(in + 24);
  header.offset = Load<uint64_t>(in + 32);
  header.port = Load<uint32_t>(in + 40);
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
