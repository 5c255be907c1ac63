// The messages between the transports that copy between GPUs. What one side decodes, it would encode the same.
#include "test/fuzz/fuzz.h"
#include "transport/copy/messages.h"

#include <algorithm>
#include <string>

using namespace hp;

namespace {

void ExpectSame(const std::vector<std::byte>& encoded, std::span<const std::byte> bytes) {
  fuzz::Expect(std::equal(encoded.begin(), encoded.end(), bytes.begin(), bytes.end()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (const auto offer = DecodeOffer(bytes); offer.ok()) fuzz::Expect(DecodeOffer(Encode(*offer)).ok());
  if (const auto region = DecodeRegion(bytes); region.ok()) ExpectSame(Encode(*region), bytes);
  if (const auto grant = DecodeGrant(bytes); grant.ok()) ExpectSame(Encode(*grant), bytes);
  if (const auto slot = DecodeSlot(bytes); slot.ok()) ExpectSame(Encode(*slot), bytes);
  const std::string text = DecodeText(bytes);
  fuzz::Expect(text.size() <= 4 * size + 3);  // "\x1b" for a byte that can't be printed
  fuzz::Expect(std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= ' ' && c != 0x7F; }));
  return 0;
}
