#include "data/index.h"

#include "data/cache_dir.h"

#include "data_test_util.h"
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>

namespace hp {
namespace {

RecordIndex SomeIndex() {
  RecordIndex index;
  index.Append("00000000");
  index.Append("");
  index.Append(std::string("with\0zero", 9));
  index.Append("00000003_cat.jpg");
  return index;
}

void ExpectSame(const RecordIndex& a, const RecordIndex& b) {
  ASSERT_EQ(a.size(), b.size());
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_EQ(a.key(i), b.key(i));
  ASSERT_EQ(a.has_values(), b.has_values());
  for (int64_t i = 0; a.has_values() && i < a.size(); ++i) EXPECT_EQ(a.value(i), b.value(i));
}

// A file with a right checksum for whatever stands in it.
std::string Sealed(std::string body) {
  const uint64_t hash = XXH3_64bits(body.data(), body.size());
  return body.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
}

TEST(RecordIndex, KeepsKeysInOrder) {
  const RecordIndex index = SomeIndex();
  ASSERT_EQ(index.size(), 4);
  EXPECT_EQ(index.key(0), "00000000");
  EXPECT_EQ(index.key(1), "");
  EXPECT_EQ(index.key(2), std::string_view("with\0zero", 9));
  EXPECT_EQ(index.key(3), "00000003_cat.jpg");
}

TEST(IndexCache, SavesAndLoads) {
  TempFolder folder;
  const IndexCache cache(folder / "new/folder", "/data/db");
  cache.Save("identity 1", SomeIndex());
  RecordIndex loaded;
  ASSERT_TRUE(cache.Load("identity 1", &loaded));
  ExpectSame(loaded, SomeIndex());
  // Nothing but the index is left there.
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "new/folder")) files += entry.exists();
  EXPECT_EQ(files, 1);
}

TEST(IndexCache, KeepsThePlacesOfValues) {
  RecordIndex index, loaded;
  index.Append("a", Extent{4112, 7});
  index.Append("b", Extent{uint64_t{1} << 40, 0});
  ASSERT_TRUE(DecodeIndex(EncodeIndex("identity", index), "identity", &loaded));
  ExpectSame(loaded, index);
  EXPECT_FALSE(SomeIndex().has_values());
}

TEST(IndexCache, RefusesNumbersThatDoNotFitBehindARightChecksum) {
  RecordIndex index;
  index.Append("ab", Extent{1, 2});
  index.Append("cd", Extent{3, 4});
  const std::string whole = EncodeIndex("i", index);
  const std::string body = whole.substr(0, whole.size() - sizeof(uint64_t));
  RecordIndex loaded;
  ASSERT_TRUE(DecodeIndex(Sealed(body), "i", &loaded));
  const size_t numbers = body.size() - 4 * sizeof(uint64_t) - 2 * sizeof(uint64_t) - 4 - 3 * sizeof(uint64_t);
  for (const size_t at : {numbers, numbers + 8, numbers + 16, numbers + 28, numbers + 36}) {  // counts, then ends
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{5}, ~uint64_t{0}, uint64_t{1} << 61}) {
      std::string damaged = body;
      std::memcpy(damaged.data() + at, &value, sizeof(value));
      const bool decoded = DecodeIndex(Sealed(damaged), "i", &loaded);
      // An end may be any number between its neighbours, and places may be missing.
      EXPECT_EQ(decoded, (at == numbers + 28 && value <= 1)) << at << ", " << value;
    }
  }
}

TEST(IndexCache, FitsOneIdentityAndOneDatabaseOnly) {
  TempFolder folder;
  const IndexCache cache(folder.path(), "/data/db");
  cache.Save("identity 1", SomeIndex());
  RecordIndex loaded;
  EXPECT_FALSE(cache.Load("identity 2", &loaded));
  EXPECT_FALSE(IndexCache(folder.path(), "/data/other").Load("identity 1", &loaded));
  EXPECT_EQ(loaded.size(), 0);
}

TEST(IndexCache, RefusesEveryDamagedByteAndEveryTruncation) {
  TempFolder folder;
  const IndexCache cache(folder.path(), "/data/db");
  cache.Save("identity 1", SomeIndex());
  const std::string whole = ReadWholeFile(cache.path());
  RecordIndex loaded;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    WriteWholeFile(cache.path(), damaged);
    EXPECT_FALSE(cache.Load("identity 1", &loaded)) << "byte " << i;
    WriteWholeFile(cache.path(), whole.substr(0, i));
    EXPECT_FALSE(cache.Load("identity 1", &loaded)) << "length " << i;
  }
  WriteWholeFile(cache.path(), whole);
  EXPECT_TRUE(cache.Load("identity 1", &loaded));
}

TEST(IndexCache, NowhereAndUnwritableAreSilent) {
  RecordIndex loaded;
  const IndexCache nowhere("", "/data/db");
  nowhere.Save("identity 1", SomeIndex());
  EXPECT_FALSE(nowhere.Load("identity 1", &loaded));
  TempFolder folder;
  WriteWholeFile(folder / "file", "not a folder");
  const IndexCache unwritable(folder / "file", "/data/db");
  unwritable.Save("identity 1", SomeIndex());
  EXPECT_FALSE(unwritable.Load("identity 1", &loaded));
  EXPECT_EQ(ReadWholeFile(folder / "file"), "not a folder");
}

TEST(CacheDirectory, FollowsFlagThenXdgThenHome) {
  setenv("HOME", "/home/ada", 1);
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(CacheDirectory("/given"), "/given");
  EXPECT_EQ(CacheDirectory("none"), "");
  EXPECT_EQ(CacheDirectory(""), "/cache/hpnode");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(CacheDirectory(""), "/home/ada/.cache/hpnode");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(CacheDirectory(""), "/home/ada/.cache/hpnode");
  unsetenv("HOME");
  EXPECT_EQ(CacheDirectory(""), "");
}

}  // namespace
}  // namespace hp
