#include "data/lmdb_pages.h"

#include "lmdb_test_util.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>

namespace hp {
namespace {

using lmdb_format::At;
using lmdb_format::Meta;
using lmdb_format::NodeHeader;
using lmdb_format::PageHeader;
using testing::HasSubstr;

constexpr size_t kPageBytes = 4096;
constexpr size_t kHeader = sizeof(PageHeader);

// Where the numbers of a database's file lie that a test damages. The newest meta page is page 1, since the database
// was written in one transaction.
class Damaged {
 public:
  explicit Damaged(const Records& records) : bytes(LmdbBytes(records)) { meta = ReadLmdbMeta(InMemory(bytes)).value(); }

  size_t meta_at(size_t field) const { return kPageBytes + kHeader + field; }
  size_t page_at(uint64_t page) const { return page * kPageBytes; }
  // Of node i: where its offset stands, and where it begins.
  size_t slot_at(uint64_t page, int i) const { return page_at(page) + kHeader + 2 * i; }
  size_t node_at(uint64_t page, int i) const { return page_at(page) + At<uint16_t>(bytes, slot_at(page, i)); }
  uint64_t child(uint64_t page, int i) const { return At<NodeHeader>(bytes, node_at(page, i)).child(); }
  // Of a leaf node: where its value begins, or the number of the value's page.
  size_t value_at(uint64_t page, int i) const {
    return node_at(page, i) + sizeof(NodeHeader) + At<NodeHeader>(bytes, node_at(page, i)).key_bytes;
  }
  template <typename T>
  Damaged& Put(size_t offset, T value) {
    PutAt(&bytes, offset, value);
    return *this;
  }
  std::string Message() const { return ReadAll(InMemory(bytes)).status.message(); }

  std::string bytes;
  LmdbMeta meta;
};

Damaged Leaf() { return Damaged(NoiseRecords(5, 20)); }
Damaged Runs() { return Damaged(NoiseRecords(4, 9000)); }
Damaged TwoLevels() { return Damaged(NoiseRecords(120, 300)); }

constexpr size_t kMainTree = offsetof(Meta, main);
constexpr size_t kDepth = kMainTree + offsetof(lmdb_format::Tree, depth);
constexpr size_t kRecords = kMainTree + offsetof(lmdb_format::Tree, records);
constexpr size_t kRoot = kMainTree + offsetof(lmdb_format::Tree, root);

TEST(LmdbPages, DamagedMetaPages) {
  Damaged file = Leaf();
  const auto put = [&](size_t field, auto value) { return Damaged(file).Put(file.meta_at(field), value).Message(); };
  EXPECT_THAT(put(0, uint32_t{0xBEEF}), HasSubstr("meta page 1 has the magic number 0x0000beef, expected 0xbeefc0de"));
  EXPECT_THAT(put(4, uint32_t{999}), HasSubstr("has version 999 of LMDB's format, expected 1"));
  EXPECT_THAT(put(offsetof(Meta, free_pages), uint32_t{8192}),
              HasSubstr("pages have 8192 bytes, meta page 0 says 4096"));
  EXPECT_THAT(put(offsetof(Meta, free_pages), uint32_t{4097}), HasSubstr("says that pages have 4097 bytes"));
  EXPECT_THAT(put(offsetof(Meta, last_page), uint64_t{0}), HasSubstr("says that the last page is 0"));
  EXPECT_THAT(put(offsetof(Meta, last_page), ~uint64_t{0}), HasSubstr("says that the last page is 184467440"));
  EXPECT_THAT(put(kDepth, uint16_t{33}), HasSubstr("5 records are in a tree of depth 33 from page 2"));
  EXPECT_THAT(put(kDepth, uint16_t{0}), HasSubstr("5 records are in a tree of depth 0 from page 2"));
  EXPECT_THAT(put(kRecords, uint64_t{0}), HasSubstr("0 records are in a tree of depth 1"));
  EXPECT_THAT(put(kRecords, uint64_t{6}), HasSubstr("its pages hold 5 records, its meta page says 6"));
  EXPECT_THAT(put(kRoot, uint64_t{1}), HasSubstr("points to 1 pages from page 1 on, expected numbers in [2, 3)"));
  EXPECT_THAT(put(kRoot, uint64_t{3}), HasSubstr("points to 1 pages from page 3 on, expected numbers in [2, 3)"));
  EXPECT_THAT(Damaged(file).Put(kPageBytes + 10, uint16_t{2}).Message(),
              HasSubstr("meta page 1 has number 1 and flags 0x2"));
  EXPECT_THAT(Damaged(file).Put(kHeader + offsetof(Meta, free_pages), uint32_t{0}).Message(),
              HasSubstr("meta page 0 says that pages have 0 bytes"));
}

TEST(LmdbPages, APageBehindTheEndOfTheFileIsTruncation) {
  Damaged file = Leaf();
  file.Put(file.meta_at(offsetof(Meta, last_page)), uint64_t{1000}).Put(file.meta_at(kRoot), uint64_t{1000});
  EXPECT_THAT(file.Message(), HasSubstr("is truncated: it has 12288 bytes, page 1000 ends at byte 4100096"));
}

TEST(LmdbPages, DamagedPageHeaders) {
  const Damaged file = Leaf();
  const auto put = [&](size_t field, auto value) {
    return Damaged(file).Put(file.page_at(2) + field, value).Message();
  };
  EXPECT_THAT(put(0, uint64_t{7}), HasSubstr("page 2: it has number 7 and flags 0x2, expected 0x2"));
  EXPECT_THAT(put(10, uint16_t{1}), HasSubstr("page 2: it has number 2 and flags 0x1, expected 0x2"));
  EXPECT_THAT(put(12, uint16_t{25}), HasSubstr("page 2: its free bytes are [25, "));
  EXPECT_THAT(put(12, uint16_t{14}), HasSubstr("page 2: its free bytes are [14, "));
  EXPECT_THAT(put(12, uint16_t{4094}), HasSubstr("page 2: its free bytes are [4094, "));
  EXPECT_THAT(put(14, uint16_t{4097}), HasSubstr("page 2: its free bytes are [26, 4097)"));
  EXPECT_THAT(put(12, uint16_t{16}), HasSubstr("page 2: it has 0 nodes, expected at least 1"));
  Damaged branch = TwoLevels();
  branch.Put(branch.page_at(branch.meta.root) + 12, uint16_t{18});
  EXPECT_THAT(branch.Message(), HasSubstr("it has 1 nodes, expected at least 2"));
}

TEST(LmdbPages, DamagedNodes) {
  const Damaged file = Leaf();
  const auto slot = [&](uint16_t value) { return Damaged(file).Put(file.slot_at(2, 1), value).Message(); };
  EXPECT_THAT(slot(16), HasSubstr("page 2: node 1 begins at byte 16, expected an even one in [3"));
  EXPECT_THAT(slot(4095), HasSubstr("page 2: node 1 begins at byte 4095, expected an even one in [3"));
  EXPECT_THAT(slot(4090), HasSubstr("page 2: node 1 begins at byte 4090, expected an even one in [3"));
  EXPECT_THAT(slot(At<uint16_t>(file.bytes, file.slot_at(2, 0))), HasSubstr("page 2: two nodes overlap at byte 40"));
  const auto node = [&](int i, size_t field, uint16_t value) {
    return Damaged(file).Put(file.node_at(2, i) + field, value).Message();
  };
  EXPECT_THAT(node(1, 0, 5000), HasSubstr("page 2: node 1 at byte 40"));
  EXPECT_THAT(node(1, 0, 5000), HasSubstr("bytes after the page"));
  EXPECT_THAT(node(1, 6, 60000), HasSubstr("bytes after the page"));
  EXPECT_THAT(node(3, 0, 60), HasSubstr("page 2: two nodes overlap at byte"));
  EXPECT_THAT(node(1, 4, 16), HasSubstr("page 2: node 1 has flags 0x10 and a value of 21 bytes"));
  EXPECT_THAT(node(1, 4, lmdb_format::kSubDatabase), HasSubstr("holds databases within it (page 2, node 1)"));
  EXPECT_THAT(Damaged(file).Put(file.node_at(2, 1) + 8, 'x').Message(),
              HasSubstr("page 2: the key of node 2 is not above those before it"));
  EXPECT_THAT(Damaged(file).Put(file.node_at(2, 0) + 6, uint16_t{0}).Message(),
              HasSubstr("page 2: the key of node 0 is not above those before it"));
}

TEST(LmdbPages, DamagedBranches) {
  const Damaged file = TwoLevels();
  const uint64_t root = file.meta.root, second = file.child(root, 1);
  const auto child = [&](uint32_t page) { return Damaged(file).Put(file.node_at(root, 1), page).Message(); };
  EXPECT_THAT(child(static_cast<uint32_t>(root)), HasSubstr(Format("page %u is used twice", unsigned(root))));
  EXPECT_THAT(child(static_cast<uint32_t>(file.child(root, 0))), HasSubstr("is used twice"));
  EXPECT_THAT(child(4000), HasSubstr("points to 1 pages from page 4000 on"));
  EXPECT_THAT(child(static_cast<uint32_t>(file.child(root, 2))), HasSubstr("is not above those before it"));
  // Node 1 has the key of the first record below it: a greater one, then one that the page before holds.
  const size_t key = file.node_at(root, 1) + sizeof(NodeHeader);
  EXPECT_THAT(Damaged(file).Put(key + 7, '9').Message(),
              HasSubstr(Format("page %u: the key of node 0 is not above", unsigned(second))));
  EXPECT_THAT(Damaged(file).Put(key + 6, '0').Put(key + 7, '1').Message(),
              HasSubstr(Format("page %u: the key of node 1 is not above", unsigned(root))));
  // The tree is deeper or flatter than the meta page says.
  EXPECT_THAT(Damaged(file).Put(file.meta_at(kDepth), uint16_t{3}).Message(), HasSubstr("flags 0x2, expected 0x1"));
  EXPECT_THAT(Damaged(file).Put(file.meta_at(kDepth), uint16_t{1}).Message(), HasSubstr("flags 0x1, expected 0x2"));
}

TEST(LmdbPages, DamagedOverflowRuns) {
  const Damaged file = Runs();
  const uint64_t leaf = file.meta.root;
  const auto number = [&](uint64_t page) { return Damaged(file).Put(file.value_at(leaf, 1), page).Message(); };
  const auto first = At<uint64_t>(file.bytes, file.value_at(leaf, 0)),
             run = At<uint64_t>(file.bytes, file.value_at(leaf, 1));
  EXPECT_THAT(number(~uint64_t{0}), HasSubstr("points to 3 pages from page 18446744073709551615 on"));
  EXPECT_THAT(number(file.meta.pages - 1), HasSubstr("points to 3 pages from page "));
  EXPECT_THAT(number(first + 1), HasSubstr(Format("page %u is used twice", unsigned(first + 1))));
  EXPECT_THAT(number(leaf), HasSubstr("is used twice"));
  EXPECT_THAT(Damaged(file).Put(file.node_at(leaf, 1), ~uint32_t{0}).Message(),
              HasSubstr("node 1 has flags 0x1 and a value of 4294967295 bytes"));
  const auto header = [&](size_t field, auto value) {
    return Damaged(file).Put(file.page_at(run) + field, value).Message();
  };
  const std::string lost = Format("page %u no longer holds a value of 9001 bytes at byte 16", unsigned(run));
  EXPECT_THAT(header(0, uint64_t{1}), HasSubstr(lost));
  EXPECT_THAT(header(10, uint16_t{2}), HasSubstr(lost));
  EXPECT_THAT(header(12, uint32_t{2}), HasSubstr(lost));
  // LMDB leaves a run as long as it was when a shorter value replaces the one in it.
  EXPECT_EQ(header(12, uint32_t{4}), "");
}

TEST(LmdbPages, ARecordThatChangedAfterTheWalkIsFound) {
  Damaged file = Leaf();
  const LmdbContents intact = ReadAll(InMemory(file.bytes));
  ASSERT_TRUE(intact.status.ok());
  const auto read = [&](Extent value) {
    std::string bytes;
    return ReadLmdbRecord(InMemory(file.bytes), intact.meta, intact.records[1].first, value, &bytes).message();
  };
  const Extent value = intact.values[1];
  EXPECT_EQ(read(value), "");
  EXPECT_THAT(read({value.offset, value.bytes + 1}),
              HasSubstr("page 2 no longer holds a value of 22 bytes at byte 40"));
  EXPECT_THAT(read({file.bytes.size() - 4, 5}), HasSubstr("has 12288 bytes and no value of 5 at byte 12284"));
  EXPECT_THAT(read({7, 5}), HasSubstr("no value of 5 at byte 7"));
  file.Put(file.node_at(2, 1) + 8, 'x');
  EXPECT_THAT(read(value), HasSubstr("page 2 no longer holds"));
}

TEST(LmdbPages, KindsThatCaffeNeverWritesAreRefused) {
  TempFolder folder;
  WithLmdb(folder / "inner", 0, [](MDB_txn* txn) {
    MDB_dbi dbi = 0;
    ASSERT_EQ(mdb_dbi_open(txn, "inner", MDB_CREATE, &dbi), 0);
    PutMdb(txn, dbi, "a", "b");
  });
  const std::string inner = ReadWholeFile(folder / "inner/data.mdb");
  EXPECT_THAT(ReadAll(InMemory(inner)).status.message(), HasSubstr("holds databases within it"));
  WithLmdb(folder / "duplicates", 0, [](MDB_txn* txn) { PutMdb(txn, MainDb(txn, MDB_DUPSORT), "a", "b"); });
  const std::string duplicates = ReadWholeFile(folder / "duplicates/data.mdb");
  const Status status = ReadAll(InMemory(duplicates)).status;
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("duplicate keys or keys in an order of its own (flags 0x4)"));
}

void ExpectContents(const std::string& folder, const std::map<std::string, std::string>& expected) {
  const std::string bytes = ReadWholeFile(folder + "/data.mdb");
  const LmdbContents found = ReadAll(InMemory(bytes));
  ASSERT_TRUE(found.status.ok()) << found.status;
  ASSERT_EQ(found.records, Records(expected.begin(), expected.end()));
}

// What mdb_copy -c makes of a database.
void CopyCompact(const std::string& from, const std::string& to) {
  std::filesystem::create_directories(to);
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  const std::unique_ptr<MDB_env, void (*)(MDB_env*)> closer(env, mdb_env_close);
  ASSERT_EQ(mdb_env_open(env, from.c_str(), MDB_NOLOCK | MDB_RDONLY, 0), 0);
  ASSERT_EQ(mdb_env_copy2(env, to.c_str(), MDB_CP_COMPACT), 0);
}

// What liblmdb makes of random changes over many transactions, beside a map.
TEST(LmdbPages, AgreesWithTheLibrary) {
  constexpr uint64_t kSeed = 4711;
  std::cout << "seed " << kSeed << std::endl;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 8; ++round) {
    TempFolder folder;
    std::map<std::string, std::string> expected;
    const size_t key_bytes = round % 3 == 0 ? 400 : 12, longest = round % 2 == 0 ? 200 : 12000;
    for (int transaction = 0; transaction < 8; ++transaction) {
      WithLmdb(folder.path(), round % 4 == 3 ? MDB_WRITEMAP : 0, [&](MDB_txn* txn) {
        const MDB_dbi dbi = MainDb(txn);
        for (int change = 0; change < 60; ++change) {
          std::string key = NoiseBytes(random() % 150, 1 + random() % 3);
          key.resize(1 + NoiseBytes(key[0], 1)[0] % 7 + key_bytes, key[0]);
          if (random() % 3 == 0) {
            MDB_val mdb_key = ToMdb(key);
            ASSERT_EQ(mdb_del(txn, dbi, &mdb_key, nullptr), expected.erase(key) == 1 ? 0 : MDB_NOTFOUND);
          } else {
            expected[key] = NoiseBytes(random(), random() % longest);
            PutMdb(txn, dbi, key, expected[key]);
          }
        }
      });
      ASSERT_NO_FATAL_FAILURE(ExpectContents(folder.path(), expected)) << "round " << round;
    }
    CopyCompact(folder.path(), folder / "copy");
    ASSERT_NO_FATAL_FAILURE(ExpectContents(folder / "copy", expected)) << "round " << round;
  }
}

}  // namespace
}  // namespace hp
