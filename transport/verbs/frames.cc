#include "transport/verbs/frames.h"

#include "base/format.h"
#include "transport/little_endian.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

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
  setup.fault = Printable(bytes.substr(kSetupHead + 8 * qps));
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

StatusOr<FrameHeader> TakeControlFrame(std::span<const std::byte>* bytes, std::span<const std::byte>* payload) {
  if (bytes->size() < kFrameHeaderBytes) return InvalidArgument("a frame of %zu bytes", bytes->size());
  HP_ASSIGN_OR_RETURN(const FrameHeader frame, DecodeFrameHeader(bytes->first<kFrameHeaderBytes>()));
  if (frame.type == FrameType::kData) return InvalidArgument("frame of unknown type %d", static_cast<int>(frame.type));
  if (frame.length > bytes->size() - kFrameHeaderBytes) {
    return InvalidArgument("frame of type %d with %u bytes in a message of %zu", static_cast<int>(frame.type),
                           frame.length, bytes->size());
  }
  *payload = bytes->subspan(kFrameHeaderBytes, frame.length);
  *bytes = bytes->subspan(kFrameHeaderBytes + frame.length);
  return frame;
}

}  // namespace hp
