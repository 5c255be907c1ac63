#include "data/dataset.h"

#include "data_test_util.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace hp {
namespace {

using testing::HasSubstr;

// What holds for both kinds of database.
class DatasetTest : public testing::TestWithParam<DbBackend> {
 protected:
  DatasetTest() { options_.cache_dir = folder_ / "cache"; }

  StatusOr<std::unique_ptr<Dataset>> Open(const std::string& path) { return Dataset::Open(path, GetParam(), options_); }

  TempFolder folder_;
  DatasetOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Backends, DatasetTest, testing::Values(DbBackend::kLevelDb, DbBackend::kLmdb),
                         [](const auto& info) { return DbBackendName(info.param); });

TEST_P(DatasetTest, ReadsBackByteForByteInAnyOrder) {
  const Records records = NoiseRecords(500, 3000);
  WriteRecords(folder_ / "db", GetParam(), records);
  auto dataset = Open(folder_ / "db");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 500);
  std::vector<int> order;
  for (int i = 0; i < 500; ++i) order.push_back(i);                           // in order
  for (int i = 0; i < 500; ++i) order.push_back(i * 211 % 500);               // all over the place
  for (int i = 499; i >= 0; --i) order.push_back(i);                          // backwards
  for (int i = 0; i < 500; ++i) order.push_back(i / 10 * 20 % 500 + i % 10);  // runs of ten
  for (const int i : order) {
    std::string bytes;
    const Status status = (*dataset)->Read(i, &bytes);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(bytes, records[i].second) << i;
    ASSERT_EQ((*dataset)->key(i), records[i].first);
  }
  EXPECT_THAT((*dataset)->Describe(17), HasSubstr("record 17 (key \"00000017\") of"));
}

TEST_P(DatasetTest, RecordsWrittenInAnyOrderAreNumberedByKey) {
  Records records = NoiseRecords(100, 100);
  Records shuffled = records;
  std::rotate(shuffled.begin(), shuffled.begin() + 37, shuffled.end());
  std::reverse(shuffled.begin(), shuffled.begin() + 50);
  WriteRecords(folder_ / "db", GetParam(), shuffled);
  auto dataset = Open(folder_ / "db");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (int i = 0; i < 100; ++i) {
    std::string bytes;
    ASSERT_TRUE((*dataset)->Read(i, &bytes).ok());
    EXPECT_EQ(bytes, records[i].second);
  }
}

TEST_P(DatasetTest, LeavesTheFolderUntouched) {
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(300, 2000));
  const auto before = Photograph(folder_ / "db");
  {
    auto dataset = Open(folder_ / "db");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    std::string bytes;
    for (int i = 0; i < 300; ++i) ASSERT_TRUE((*dataset)->Read(i * 7 % 300, &bytes).ok());
  }
  EXPECT_EQ(Photograph(folder_ / "db"), before);
}

// Runs `body` in a child process as a user who owns nothing (when the test runs as root).
template <typename Body>
int AsNobody(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(100);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

TEST_P(DatasetTest, AUserWithReadPermissionOnlyReadsEverything) {
  const Records records = NoiseRecords(200, 2000);
  WriteRecords(folder_ / "db", GetParam(), records);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "db")) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms(0444));
  }
  std::filesystem::permissions(folder_ / "db", std::filesystem::perms(0555));
  const auto before = Photograph(folder_ / "db");
  const int exit_status = AsNobody([&] {
    if (access((folder_ / "db").c_str(), W_OK) == 0) return 2;
    auto dataset = Open(folder_ / "db");
    if (!dataset.ok()) {
      std::cerr << dataset.status() << std::endl;
      return 3;
    }
    std::string bytes;
    for (int i = 0; i < 200; ++i) {
      if (!(*dataset)->Read(i, &bytes).ok() || bytes != records[i].second) return 4;
    }
    return 0;
  });
  EXPECT_EQ(exit_status, 0);
  EXPECT_EQ(Photograph(folder_ / "db"), before);
  std::filesystem::permissions(folder_ / "db", std::filesystem::perms(0755));
}

TEST_P(DatasetTest, SeveralProcessesAndThreadsReadAtOnce) {
  const Records records = NoiseRecords(300, 1000);
  WriteRecords(folder_ / "db", GetParam(), records);
  auto first = Open(folder_ / "db"), second = Open(folder_ / "db");
  ASSERT_TRUE(first.ok() && second.ok());
  const int exit_status = AsNobody([&] {
    DatasetOptions no_cache;
    no_cache.cache_dir = "none";
    auto third = Dataset::Open(folder_ / "db", GetParam(), no_cache);
    std::string bytes;
    return third.ok() && (*third)->Read(299, &bytes).ok() && bytes == records[299].second ? 0 : 1;
  });
  EXPECT_EQ(exit_status, 0);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string bytes;
      for (int i = 0; i < 600; ++i) {
        const int record = t % 2 == 0 ? i % 300 : i * 97 % 300;
        Dataset* dataset = t < 3 ? first->get() : second->get();
        if (!dataset->Read(record, &bytes).ok() || bytes != records[record].second) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(DatasetTest, MissingPathNamesPathAndHint) {
  options_.hint = "train.prototxt layer \"cifar\" data_param.source";
  auto dataset = Open(folder_ / "nothing");
  EXPECT_EQ(dataset.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(dataset.status().message(), HasSubstr("train.prototxt layer \"cifar\" data_param.source: "));
  EXPECT_THAT(dataset.status().message(), HasSubstr(folder_ / "nothing"));
  dataset = Open("relative/nothing");
  EXPECT_THAT(dataset.status().message(), HasSubstr("looked up from " + std::filesystem::current_path().string()));
}

TEST_P(DatasetTest, TheOtherKindOfDatabaseIsNamed) {
  const bool lmdb = GetParam() == DbBackend::kLmdb;
  WriteRecords(folder_ / "db", lmdb ? DbBackend::kLevelDb : DbBackend::kLmdb, NoiseRecords(10, 10));
  const auto dataset = Open(folder_ / "db");
  EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(dataset.status().message(), HasSubstr(lmdb ? "its backend is LEVELDB" : "its backend is LMDB"));
}

TEST_P(DatasetTest, AnEmptyDatabaseIsRefused) {
  WriteRecords(folder_ / "db", GetParam(), {});
  const auto dataset = Open(folder_ / "db");
  EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(dataset.status().message(), HasSubstr("no records"));
}

TEST_P(DatasetTest, ReplacedUnderWayIsAnErrorThatNamesThePath) {
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(300, 1000));
  auto dataset = Open(folder_ / "db");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::filesystem::remove_all(folder_ / "db");
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(300, 1000, 999));
  Status status;
  std::string bytes;
  int reads = 0;
  while (status.ok() && reads < 300) status = (*dataset)->Read(reads++, &bytes);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr(folder_ / "db"));
  EXPECT_THAT(status.message(), HasSubstr("replaced"));
  EXPECT_LE(reads, 65);
}

TEST_P(DatasetTest, TruncatedUnderWayIsAnError) {
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(2000, 1000));
  auto dataset = Open(folder_ / "db");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "db")) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".ldb") || name == "data.mdb") std::filesystem::resize_file(entry.path(), 8192);
  }
  Status status;
  std::string bytes;
  for (int i = 100; status.ok() && i < 2000; ++i) status = (*dataset)->Read(i, &bytes);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("truncated"));
  EXPECT_THAT(status.message(), HasSubstr(folder_ / "db"));
}

// Which scan was spared shows in a changed key of the cached file: it is believed.
TEST_P(DatasetTest, TheIndexIsCachedUntilTheDatabaseChanges) {
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(50, 100));
  ASSERT_TRUE(Open(folder_ / "db").ok());
  std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(folder_ / "cache"), {});
  ASSERT_EQ(files.size(), 1u);
  const auto cached = std::filesystem::last_write_time(files[0]) - std::chrono::hours(1);
  std::filesystem::last_write_time(files[0], cached);
  ASSERT_TRUE(Open(folder_ / "db").ok());
  EXPECT_EQ(std::filesystem::last_write_time(files[0]), cached) << "a hit writes nothing";

  WriteWholeFile(files[0], "rubbish");
  auto dataset = Open(folder_ / "db");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 50);
  EXPECT_NE(ReadWholeFile(files[0]), "rubbish") << "rebuilt";

  std::filesystem::remove_all(folder_ / "db");
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(60, 100));
  dataset = Open(folder_ / "db");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 60);
}

TEST_P(DatasetTest, AnUnwritableCacheIsNoError) {
  WriteWholeFile(folder_ / "cache", "a file, not a folder");
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(50, 100));
  auto dataset = Open(folder_ / "db");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 50);
}

TEST_P(DatasetTest, AnExistingPathIsNeverOverwritten) {
  WriteRecords(folder_ / "db", GetParam(), NoiseRecords(5, 10));
  const auto before = Photograph(folder_ / "db");
  const auto again = DbWriter::Create(folder_ / "db", GetParam());
  EXPECT_EQ(again.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(again.status().message(), HasSubstr((folder_ / "db") + " already exists"));
  EXPECT_EQ(Photograph(folder_ / "db"), before);
}

TEST_P(DatasetTest, AnUnfinishedWriterLeavesNothing) {
  {
    auto writer = DbWriter::Create(folder_ / "db", GetParam());
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Put("a", "b").ok());
    EXPECT_FALSE(std::filesystem::exists(folder_ / "db"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_EQ(DbWriter::Create(folder_ / "no/such/db", GetParam()).status().code(), StatusCode::kNotFound);
}

TEST(DatasetFingerprint, IsOfTheContentsNotOfTheBackend) {
  TempFolder folder;
  DatasetOptions options;
  options.cache_dir = "none";
  Records records = NoiseRecords(100, 100);
  WriteRecords(folder / "a", DbBackend::kLevelDb, records);
  WriteRecords(folder / "b", DbBackend::kLmdb, records);
  auto changed = records;
  changed[0].second[5] ^= 1;
  WriteRecords(folder / "value", DbBackend::kLmdb, changed);
  changed = records;
  changed[99].first = "00000100";
  WriteRecords(folder / "key", DbBackend::kLmdb, changed);
  changed = records;
  changed.pop_back();
  WriteRecords(folder / "count", DbBackend::kLmdb, changed);
  const auto fingerprint = [&](const char* name, DbBackend backend) {
    auto dataset = Dataset::Open(folder / name, backend, options);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return dataset.ok() ? (*dataset)->Fingerprint() : 0;
  };
  const uint64_t expected = fingerprint("a", DbBackend::kLevelDb);
  EXPECT_NE(expected, 0u);
  EXPECT_EQ(fingerprint("b", DbBackend::kLmdb), expected);
  for (const char* name : {"value", "key", "count"}) EXPECT_NE(fingerprint(name, DbBackend::kLmdb), expected) << name;
}

TEST(LmdbDataset, TruncatedFilesAreFoundAtOpen) {
  TempFolder folder;
  DatasetOptions options;
  options.cache_dir = "none";
  WriteRecords(folder / "db", DbBackend::kLmdb, NoiseRecords(200, 1000));
  const std::string file = folder / "db/data.mdb";
  const auto size = std::filesystem::file_size(file);
  for (const auto keep : {size - 4096, size / 2, uintmax_t{8192}, uintmax_t{100}, uintmax_t{0}}) {
    std::filesystem::resize_file(file, keep);
    const auto dataset = Dataset::Open(folder / "db", DbBackend::kLmdb, options);
    EXPECT_EQ(dataset.status().code(), StatusCode::kDataLoss) << keep << ": " << dataset.status();
    EXPECT_THAT(dataset.status().message(), HasSubstr(file));
    EXPECT_THAT(dataset.status().message(), HasSubstr("truncated"));
  }
}

// The cached index is believed, since size and time are those of the file that was walked. Record 58 is none of those
// that Open reads for the fingerprint.
TEST(LmdbDataset, ARecordDamagedBehindTheCachedIndexIsNamedWithItsPage) {
  TempFolder folder;
  DatasetOptions options;
  options.cache_dir = folder / "cache";
  WriteRecords(folder / "db", DbBackend::kLmdb, NoiseRecords(100, 9000));
  ASSERT_TRUE(Dataset::Open(folder / "db", DbBackend::kLmdb, options).ok());
  const std::string file = folder / "db/data.mdb";
  const auto time = std::filesystem::last_write_time(file);
  std::string bytes = ReadWholeFile(file);
  const size_t value = bytes.find(NoiseBytes(58, 9002));
  ASSERT_EQ(value % 4096, 16u) << "in pages of its own";
  bytes[value - 16] ^= 1;  // their number
  WriteWholeFile(file, bytes);
  std::filesystem::last_write_time(file, time);
  auto dataset = Dataset::Open(folder / "db", DbBackend::kLmdb, options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_TRUE((*dataset)->Read(57, &bytes).ok());
  const Status status = (*dataset)->Read(58, &bytes);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("record 58 (key \"00000058\")"));
  EXPECT_THAT(status.message(), HasSubstr(Format("%s is corrupt: page %zu no longer", file.c_str(), value / 4096)));
}

TEST(LmdbDataset, ADataFileWithoutItsFolderIsADatabase) {
  TempFolder folder;
  DatasetOptions options;
  options.cache_dir = "none";
  WriteRecords(folder / "db", DbBackend::kLmdb, NoiseRecords(20, 10));
  auto dataset = Dataset::Open(folder / "db/data.mdb", DbBackend::kLmdb, options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 20);
}

TEST(LmdbWriter, AKeyThatComesTwiceIsAnError) {
  TempFolder folder;
  auto writer = DbWriter::Create(folder / "db", DbBackend::kLmdb);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Put("a", "1").ok());
  ASSERT_TRUE((*writer)->Put("a", "2").ok());
  EXPECT_EQ((*writer)->Finish().code(), StatusCode::kInvalidArgument);
}

TEST(LmdbWriter, TheMapGrows) {
  TempFolder folder;
  const Records records = NoiseRecords(100, 1 << 20);  // 100 MiB in a map of 64 at first
  WriteRecords(folder / "db", DbBackend::kLmdb, records);
  DatasetOptions options;
  options.cache_dir = "none";
  auto dataset = Dataset::Open(folder / "db", DbBackend::kLmdb, options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::string bytes;
  for (const int i : {0, 63, 64, 99}) {
    ASSERT_TRUE((*dataset)->Read(i, &bytes).ok());
    EXPECT_EQ(bytes, records[i].second);
  }
}

TEST(ParseDbBackend, KnowsTwo) {
  EXPECT_EQ(*ParseDbBackend("LMDB"), DbBackend::kLmdb);
  EXPECT_EQ(*ParseDbBackend("leveldb"), DbBackend::kLevelDb);
  EXPECT_THAT(ParseDbBackend("hdf5").status().message(), HasSubstr("\"hdf5\": expected leveldb or lmdb"));
}

}  // namespace
}  // namespace hp
