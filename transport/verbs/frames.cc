#include "transport/verbs/frames.h"

#include "transport/little_endian.h"
#include "transport/wire.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

constexpr uint8_t kFlagMore = 1;
constexpr size_t kSetupHead = 48;  // ahead of queue pairs and fault
constexpr size_t kMaxFault = 4096;

std::byte* Bytes(std::string* text, size_t at) { return reinterpret_cast<std::byte*>(text->data()) + at; }
const std::byte* Bytes(const std::string& text, size_t at) {
  return reinterpret_cast<const std::byte*>(text.data()) + at;
}

}  // namespace

std::string EncodeSetup(const VerbsSetup& setup) {
  std::string bytes(kSetupHead + 8 * setup.qps.size(), '\0');
  StoreLittle<uint32_t>(Bytes(&bytes, 0), setup.epoch);
  StoreLittle<uint32_t>(Bytes(&bytes, 4), setup.control_bytes);
  StoreLittle<uint16_t>(Bytes(&bytes, 8), setup.lid);
  StoreLittle<uint8_t>(Bytes(&bytes, 10), setup.mtu);
  StoreLittle<uint8_t>(Bytes(&bytes, 11), setup.ethernet);
  StoreLittle<uint32_t>(Bytes(&bytes, 12), static_cast<uint32_t>(setup.qps.size()));
  std::memcpy(&bytes[16], setup.gid, sizeof(setup.gid));
  StoreLittle<uint64_t>(Bytes(&bytes, 32), setup.cm_nonce);
  StoreLittle<uint16_t>(Bytes(&bytes, 40), setup.cm_port);
  StoreLittle<uint8_t>(Bytes(&bytes, 42), setup.by_cm);
  for (size_t i = 0; i < setup.qps.size(); ++i) {
    StoreLittle<uint32_t>(Bytes(&bytes, kSetupHead + 8 * i), setup.qps[i].number);
    StoreLittle<uint32_t>(Bytes(&bytes, kSetupHead + 8 * i + 4), setup.qps[i].psn);
  }
  return bytes + setup.fault.substr(0, kMaxFault);
}

StatusOr<VerbsSetup> DecodeSetup(const std::string& bytes) {
  if (bytes.size() < kSetupHead) return InvalidArgument("a set-up of %zu bytes", bytes.size());
  VerbsSetup setup;
  setup.epoch = LoadLittle<uint32_t>(Bytes(bytes, 0));
  setup.control_bytes = LoadLittle<uint32_t>(Bytes(bytes, 4));
  setup.lid = LoadLittle<uint16_t>(Bytes(bytes, 8));
  setup.mtu = LoadLittle<uint8_t>(Bytes(bytes, 10));
  setup.ethernet = LoadLittle<uint8_t>(Bytes(bytes, 11)) != 0;
  const uint32_t qps = LoadLittle<uint32_t>(Bytes(bytes, 12));
  std::memcpy(setup.gid, &bytes[16], sizeof(setup.gid));
  setup.cm_nonce = LoadLittle<uint64_t>(Bytes(bytes, 32));
  setup.cm_port = LoadLittle<uint16_t>(Bytes(bytes, 40));
  setup.by_cm = LoadLittle<uint8_t>(Bytes(bytes, 42)) != 0;
  if (qps > 1 + kMaxDataQps || bytes.size() < kSetupHead + 8 * qps) {
    return InvalidArgument("a set-up with %u queue pairs in %zu bytes", qps, bytes.size());
  }
  for (uint32_t i = 0; i < qps; ++i) {
    setup.qps.push_back({LoadLittle<uint32_t>(Bytes(bytes, kSetupHead + 8 * i)),
                         LoadLittle<uint32_t>(Bytes(bytes, kSetupHead + 8 * i + 4))});
  }
  setup.fault = bytes.substr(kSetupHead + 8 * qps);
  if (setup.fault.empty() && (qps < 2 || setup.mtu < 1 || setup.mtu > 5 || setup.control_bytes < 256)) {
    return InvalidArgument("a set-up with %u queue pairs, MTU %d and control messages of %u bytes", qps, setup.mtu,
                           setup.control_bytes);
  }
  return setup;
}

void EncodeCmHello(const CmHello& hello, std::byte* out) {
  std::memcpy(out, kWireMagic.data(), kWireMagic.size());
  StoreLittle<uint16_t>(out + 8, kWireVersion);
  StoreLittle<uint16_t>(out + 10, hello.index);
  StoreLittle<uint32_t>(out + 12, hello.epoch);
  StoreLittle<uint64_t>(out + 16, hello.nonce);
}

StatusOr<CmHello> DecodeCmHello(std::span<const std::byte> bytes) {
  if (bytes.size() < kCmHelloBytes) return InvalidArgument("%zu bytes of private data", bytes.size());
  if (std::memcmp(bytes.data(), kWireMagic.data(), kWireMagic.size()) != 0) {
    return InvalidArgument("it does not speak our protocol");
  }
  const uint16_t version = LoadLittle<uint16_t>(&bytes[8]);
  if (version != kWireVersion) return InvalidArgument("protocol version %d, %d here", version, kWireVersion);
  return CmHello{.index = LoadLittle<uint16_t>(&bytes[10]),
                 .epoch = LoadLittle<uint32_t>(&bytes[12]),
                 .nonce = LoadLittle<uint64_t>(&bytes[16])};
}

void EncodeControlFrame(const ControlFrame& frame, std::byte* out) {
  StoreLittle<uint8_t>(out, static_cast<uint8_t>(frame.type));
  StoreLittle<uint8_t>(out + 1, frame.more ? kFlagMore : 0);
  StoreLittle<uint16_t>(out + 2, frame.parts);
  StoreLittle<uint32_t>(out + 4, frame.length);
  StoreLittle<uint32_t>(out + 8, frame.index);
  StoreLittle<uint32_t>(out + 12, frame.generation);
  StoreLittle<uint64_t>(out + 16, frame.msg_id);
  StoreLittle<uint64_t>(out + 24, frame.bytes);
  StoreLittle<uint64_t>(out + 32, frame.address);
  StoreLittle<uint32_t>(out + 40, frame.port);
  StoreLittle<uint32_t>(out + 44, frame.rkey);
}

StatusOr<ControlFrame> TakeControlFrame(std::span<const std::byte>* bytes, std::span<const std::byte>* payload) {
  if (bytes->size() < kControlFrameBytes) return InvalidArgument("a frame of %zu bytes", bytes->size());
  const std::byte* in = bytes->data();
  ControlFrame frame;
  const uint8_t type = LoadLittle<uint8_t>(in), flags = LoadLittle<uint8_t>(in + 1);
  frame.type = static_cast<ControlType>(type);
  frame.more = flags & kFlagMore;
  frame.parts = LoadLittle<uint16_t>(in + 2);
  frame.length = LoadLittle<uint32_t>(in + 4);
  frame.index = LoadLittle<uint32_t>(in + 8);
  frame.generation = LoadLittle<uint32_t>(in + 12);
  frame.msg_id = LoadLittle<uint64_t>(in + 16);
  frame.bytes = LoadLittle<uint64_t>(in + 24);
  frame.address = LoadLittle<uint64_t>(in + 32);
  frame.port = LoadLittle<uint32_t>(in + 40);
  frame.rkey = LoadLittle<uint32_t>(in + 44);
  const bool message = frame.type == ControlType::kMessage;
  if (type != 1 && type != 2 && type != 4 && type != 5) return InvalidArgument("frame of unknown type %d", type);
  if (flags > (message ? kFlagMore : 0)) return InvalidArgument("frame of type %d with flags %#x", type, flags);
  if (frame.length > (message ? bytes->size() - kControlFrameBytes : 0)) {
    return InvalidArgument("frame of type %d with %u bytes in a message of %zu", type, frame.length, bytes->size());
  }
  *payload = bytes->subspan(kControlFrameBytes, frame.length);
  *bytes = bytes->subspan(kControlFrameBytes + frame.length);
  return frame;
}

}  // namespace hp
