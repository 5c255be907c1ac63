// A data.mdb: its meta pages, the walk, and each record.
#include "data/lmdb_pages.h"

#include "test/fuzz/fuzz.h"

#include <cstring>
#include <utility>
#include <vector>

using namespace hp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of the right size, so that one byte too far is found.
  const std::vector<uint8_t> bytes(data, data + size);
  const LmdbFile file{"fuzz", size, [&bytes](uint64_t offset, size_t count, char* to) {
                        fuzz::Expect(offset <= bytes.size() && count <= bytes.size() - offset);
                        std::memcpy(to, bytes.data() + offset, count);
                        return OkStatus();
                      }};
  const auto meta = ReadLmdbMeta(file);
  if (!meta.ok()) return 0;
  std::vector<std::pair<std::string, Extent>> records;
  const Status walked = WalkLmdb(
      file, *meta, [&records](std::string_view key, Extent value) { records.emplace_back(std::string(key), value); });
  if (walked.ok()) fuzz::Expect(records.size() == meta->records);
  std::string value;
  for (const auto& [key, extent] : records) {
    if (ReadLmdbRecord(file, *meta, key, extent, &value).ok()) fuzz::Expect(value.size() == extent.bytes);
  }
  return 0;
}
