#include "data/dataset.h"

#include "lmdb_test_util.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>

namespace hp {
namespace {

constexpr uint64_t kSeed = 20260101;
constexpr size_t kPage = 4096;
constexpr size_t kMetaBytes = sizeof(lmdb_format::PageHeader) + sizeof(lmdb_format::Meta);

struct Shape {
  const char* name;
  Records records;
};

// Each with its whole tree in one transaction, so that no page of an older state is left that could be in order too.
std::vector<Shape> Shapes() {
  return {{"empty", {}},
          {"one", NoiseRecords(1, 10)},
          {"leaf", NoiseRecords(60, 20)},
          {"runs", NoiseRecords(12, 9000)},
          {"two levels", NoiseRecords(120, 300)},
          {"three levels", LongKeyRecords(60, 500, 1200)}};
}

struct Range {
  size_t begin, end;
};

// What no structure protects of each record: the bytes and lengths of key and value.
std::vector<std::vector<Range>> Unprotected(const std::string& file, const LmdbContents& intact) {
  std::vector<std::vector<Range>> ranges(intact.records.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].push_back({intact.values[i].offset, intact.values[i].offset + intact.values[i].bytes});
    const std::string& key = intact.records[i].first;
    for (size_t at = file.find(key); at != std::string::npos; at = file.find(key, at + 1)) {
      const auto page = lmdb_format::At<lmdb_format::PageHeader>(file, at / kPage * kPage);
      if (page.flags == lmdb_format::kLeafPage) ranges[i].push_back({at - 8, at + key.size()});
    }
  }
  return ranges;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // Overwrites up to three places. @return them
  std::vector<Range> Mutate(std::string* file) {
    std::vector<Range> touched;
    for (size_t left = 1 + random_() % 3; left > 0; --left) {
      const size_t at = Place(file->size());
      const size_t bytes = std::min<size_t>(size_t{1} << random_() % 4, file->size() - at);
      const uint64_t value = Value(*file, at);
      std::memcpy(file->data() + at, &value, bytes);
      touched.push_back({at, at + bytes});
    }
    return touched;
  }

 private:
  // Headers and the offsets of nodes more often than what follows.
  size_t Place(size_t file_bytes) {
    if (random_() % 4 == 0) return random_() % file_bytes;
    const size_t reach = random_() % 2 == 0 ? 32 : 160;
    return random_() % (file_bytes / kPage) * kPage + random_() % reach;
  }
  uint64_t Value(const std::string& file, size_t at) {
    const auto old = static_cast<unsigned char>(file[at]);
    switch (random_() % 4) {
      case 0:
        return old ^ uint64_t { 1 } << random_() % 8;
      case 1:
        return random_() % (file.size() / kPage + 2);
      case 2:
        return uint64_t{0} - random_() % 3;
      default:
        return random_();
    }
  }

  std::mt19937_64 random_;
};

bool Meet(const std::vector<Range>& a, const std::vector<Range>& b) {
  for (const Range& x : a) {
    for (const Range& y : b) {
      if (x.begin < y.end && y.begin < x.end) return true;
    }
  }
  return false;
}

TEST(LmdbMutation, DamageIsRefusedOrHarmless) {
  std::cout << "seed " << kSeed << std::endl;
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(shape.name);
    const std::string whole = LmdbBytes(shape.records);
    const LmdbContents intact = ReadAll(InMemory(whole));
    ASSERT_TRUE(intact.status.ok()) << intact.status;
    ASSERT_EQ(intact.records, shape.records);
    const auto unprotected = Unprotected(whole, intact);
    Mutator mutator(kSeed);
    int refused = 0;
    for (int mutant = 0; mutant < 1000; ++mutant) {
      std::string file = whole;
      const auto touched = mutator.Mutate(&file);
      const LmdbContents found = ReadAll(InMemory(file));
      refused += found.status.ok() ? 0 : 1;
      if (!found.status.ok()) {
        ASSERT_NE(found.status.message().find("mem/data.mdb"), std::string::npos) << found.status;
        continue;
      }
      // A smaller transaction number shows the state before it, without records.
      if (found.records.empty()) continue;
      ASSERT_EQ(found.records.size(), intact.records.size()) << "mutant " << mutant;
      for (size_t i = 0; i < found.records.size(); ++i) {
        if (Meet(touched, unprotected[i])) continue;
        ASSERT_EQ(found.records[i], intact.records[i]) << "mutant " << mutant << ", record " << i;
      }
    }
    EXPECT_GT(refused, 100);
  }
}

TEST(LmdbMutation, TruncatedFilesAreRefused) {
  std::mt19937_64 random(kSeed);
  for (const Shape& shape : Shapes()) {
    SCOPED_TRACE(shape.name);
    const std::string whole = LmdbBytes(shape.records);
    std::vector<size_t> lengths;
    for (size_t page = 0; page < whole.size(); page += kPage) {
      for (const size_t length : {page, page + 1, page + random() % kPage, page + kPage - 1}) lengths.push_back(length);
    }
    for (const size_t length : lengths) {
      const std::string cut = whole.substr(0, length);
      const Status status = ReadAll(InMemory(cut)).status;
      if (shape.records.empty() && length >= kPage + kMetaBytes) continue;  // it has all that it needs
      ASSERT_EQ(status.code(), StatusCode::kDataLoss) << length << ": " << status;
      EXPECT_NE(status.message().find("truncated"), std::string::npos) << status;
    }
  }
}

// The whole way from the file on: the process lives, and the message names the file.
TEST(LmdbMutation, DatasetsOfDamagedFilesAreRefusedOrRead) {
  std::cout << "seed " << kSeed << std::endl;
  TempFolder folder;
  DatasetOptions options;
  options.cache_dir = "none";
  int refused = 0;
  for (const Shape& shape : Shapes()) {
    const std::string whole = LmdbBytes(shape.records);
    Mutator mutator(kSeed + 1);
    for (int mutant = 0; mutant < 40; ++mutant) {
      std::string file = whole;
      mutator.Mutate(&file);
      WriteWholeFile(folder / "data.mdb", file);
      auto dataset = Dataset::Open(folder / "data.mdb", DbBackend::kLmdb, options);
      Status status = dataset.status();
      std::string bytes;
      for (int64_t i = 0; status.ok() && i < (*dataset)->size(); ++i) status = (*dataset)->Read(i, &bytes);
      if (status.ok()) continue;
      ++refused;
      EXPECT_EQ(ExitStatus(status), 2) << status;
      EXPECT_NE(status.message().find(folder / "data.mdb"), std::string::npos) << status;
    }
  }
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace hp
