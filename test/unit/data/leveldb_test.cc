// What only LevelDB databases can be like: open elsewhere, not closed cleanly, damaged in one of many files.

#include "data/dataset.h"
#include "data/leveldb_env.h"

#include "data_test_util.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

namespace hp {
namespace {

using testing::HasSubstr;

class LevelDbTest : public testing::Test {
 protected:
  LevelDbTest() { options_.cache_dir = "none"; }

  StatusOr<std::unique_ptr<Dataset>> OpenDataset() { return Dataset::Open(Path(), DbBackend::kLevelDb, options_); }
  std::string Path() const { return folder_ / "db"; }

  // LevelDB itself, as Caffe uses it.
  std::unique_ptr<leveldb::DB> OpenForWriting(size_t write_buffer = 4 << 20) {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = write_buffer;
    leveldb::DB* db = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options, Path(), &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::unique_ptr<leveldb::DB>(db);
  }
  static void Put(leveldb::DB* db, const Records& records, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      ASSERT_TRUE(db->Put(leveldb::WriteOptions(), records[i].first, records[i].second).ok());
    }
  }
  void ExpectReads(Dataset* dataset, const Records& records, size_t count) {
    ASSERT_EQ(dataset->size(), static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      std::string bytes;
      const Status status = dataset->Read(static_cast<int64_t>(i), &bytes);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(bytes, records[i].second) << i;
    }
  }
  std::vector<std::string> Files(const std::string& ending) const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(Path())) {
      if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  TempFolder folder_;
  DatasetOptions options_;
};

TEST_F(LevelDbTest, ReadsTheUnfinishedLogOfADatabaseThatWasNotClosed) {
  const Records records = NoiseRecords(300, 1000);
  {
    // A copy of an open database is what a killed writer leaves.
    const auto db = OpenForWriting();
    Put(db.get(), records, 0, 300);
    std::filesystem::copy(Path(), folder_ / "copy");
  }
  std::filesystem::remove_all(Path());
  std::filesystem::rename(folder_ / "copy", Path());
  ASSERT_TRUE(Files(".ldb").empty()) << "all of it should be in the log";
  const auto before = Photograph(Path());
  auto dataset = OpenDataset();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ExpectReads(dataset->get(), records, 300);
  EXPECT_EQ(Photograph(Path()), before);
}

TEST_F(LevelDbTest, ReadsTablesAndLogTogether) {
  const Records records = NoiseRecords(3000, 1000);
  // Closing waits for LevelDB's own thread, which moves tables about meanwhile, and leaves the latest records in one
  // log or two.
  Put(OpenForWriting(256 << 10).get(), records, 0, 3000);
  ASSERT_FALSE(Files(".ldb").empty());
  ASSERT_FALSE(Files(".log").empty());
  ASSERT_GT(std::filesystem::file_size(Files(".log").back()), 0u);
  const auto before = Photograph(Path());
  auto dataset = OpenDataset();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ExpectReads(dataset->get(), records, 3000);
  dataset->reset();
  EXPECT_EQ(Photograph(Path()), before);
}

TEST_F(LevelDbTest, ReadsWhileAnotherHasItOpenAndLetsItGoOn) {
  const Records records = NoiseRecords(200, 1000);
  const auto writer = OpenForWriting();
  Put(writer.get(), records, 0, 100);
  auto dataset = OpenDataset();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ExpectReads(dataset->get(), records, 100);
  Put(writer.get(), records, 100, 200);
  std::string value;
  EXPECT_TRUE(writer->Get(leveldb::ReadOptions(), records[150].first, &value).ok());
  ExpectReads(dataset->get(), records, 100);  // the state at Open
  auto later = OpenDataset();
  ASSERT_TRUE(later.ok()) << later.status();
  ExpectReads(later->get(), records, 200);
}

// A writer that makes and removes tables all the time is never mistaken for damage: a reader gets the state at some
// moment, or is told that the database was changed.
TEST_F(LevelDbTest, ABusyWriterIsNoDamage) {
  const Records records = NoiseRecords(6000, 500);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    const auto db = OpenForWriting(64 << 10);
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t i = 0; i < records.size(); ++i) Put(db.get(), records, i * 7 % 6000, i * 7 % 6000 + 1);
    }
    done = true;
  });
  int opened = 0;
  while (!done) {
    auto dataset = OpenDataset();
    if (!dataset.ok()) {
      const bool not_yet = dataset.status().message().find("no records") != std::string::npos ||
                           dataset.status().message().find("no file CURRENT") != std::string::npos ||
                           dataset.status().code() == StatusCode::kNotFound;
      EXPECT_TRUE(not_yet || dataset.status().code() == StatusCode::kFailedPrecondition) << dataset.status();
      continue;
    }
    ++opened;
    std::string bytes;
    for (int64_t i = 0; i < (*dataset)->size(); i += 97) {
      const Status status = (*dataset)->Read(i, &bytes);
      if (status.code() == StatusCode::kFailedPrecondition) break;
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(bytes, records[std::stoi(std::string((*dataset)->key(i)))].second);
    }
  }
  writer.join();
  EXPECT_GT(opened, 0);
  auto dataset = OpenDataset();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ExpectReads(dataset->get(), records, 6000);
}

TEST_F(LevelDbTest, SurvivesSomebodyWhoOpensItForWritingMeanwhile) {
  const Records records = NoiseRecords(500, 1000);
  WriteRecords(Path(), DbBackend::kLevelDb, records);
  auto dataset = OpenDataset();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  OpenForWriting().reset();  // a new MANIFEST and CURRENT, the same tables
  ExpectReads(dataset->get(), records, 500);
  EXPECT_TRUE((*dataset)->CheckUnchanged().ok());
}

// Overlapping tables, which LevelDB would like to merge as soon as it is open.
TEST_F(LevelDbTest, OverlappingTablesAreReadAsTheyAre) {
  const Records records = NoiseRecords(400, 500);
  for (int round = 0; round < 8; ++round) {
    const auto db = OpenForWriting();
    for (int i = round; i < 400; i += 8) Put(db.get(), records, i, i + 1);
  }
  const auto before = Photograph(Path());
  for (int round = 0; round < 3; ++round) {
    auto dataset = OpenDataset();
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    for (int pass = 0; pass < 3; ++pass) ExpectReads(dataset->get(), records, 400);
  }
  EXPECT_EQ(Photograph(Path()), before);
}

TEST_F(LevelDbTest, TheEnvKeepsWhatIsWrittenToItself) {
  WriteWholeFile(folder_ / "base", "on the disk");
  const auto before = Photograph(folder_.path());
  ReadOnlyEnv env;
  leveldb::WritableFile* file = nullptr;
  ASSERT_TRUE(env.NewWritableFile(folder_ / "new.tmp", &file).ok());
  ASSERT_TRUE(file->Append("in memory").ok());
  delete file;
  ASSERT_TRUE(env.RenameFile(folder_ / "new.tmp", folder_ / "new").ok());
  std::string bytes;
  ASSERT_TRUE(leveldb::ReadFileToString(&env, folder_ / "new", &bytes).ok());
  EXPECT_EQ(bytes, "in memory");
  ASSERT_TRUE(leveldb::ReadFileToString(&env, folder_ / "base", &bytes).ok());
  EXPECT_EQ(bytes, "on the disk");
  ASSERT_TRUE(env.RemoveFile(folder_ / "base").ok());
  EXPECT_FALSE(env.FileExists(folder_ / "base"));
  EXPECT_TRUE(leveldb::ReadFileToString(&env, folder_ / "base", &bytes).IsNotFound());
  std::vector<std::string> names;
  ASSERT_TRUE(env.GetChildren(folder_.path(), &names).ok());
  EXPECT_EQ(std::count(names.begin(), names.end(), "new"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "base"), 0);
  EXPECT_EQ(Photograph(folder_.path()), before);
}

// A compaction would copy the database into memory: before Seal it does not begin, afterwards it can't write.
TEST_F(LevelDbTest, TheEnvLetsNothingBeCompacted) {
  ReadOnlyEnv env;
  std::promise<void> ran;
  env.Schedule([](void* promise) { static_cast<std::promise<void>*>(promise)->set_value(); }, &ran);
  auto future = ran.get_future();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  env.Seal();
  future.wait();
  leveldb::WritableFile* file = nullptr;
  EXPECT_FALSE(env.NewWritableFile(folder_ / "000009.ldb", &file).ok());
  EXPECT_EQ(file, nullptr);
}

TEST_F(LevelDbTest, ATruncatedTableIsFoundAtOpenAndNamed) {
  WriteRecords(Path(), DbBackend::kLevelDb, NoiseRecords(500, 1000));
  const auto tables = Files(".ldb");
  ASSERT_FALSE(tables.empty());
  const auto size = std::filesystem::file_size(tables[0]);
  for (const auto keep : {size - 1, size / 2, uintmax_t{0}}) {
    std::filesystem::resize_file(tables[0], keep);
    const auto dataset = OpenDataset();
    EXPECT_EQ(dataset.status().code(), StatusCode::kDataLoss) << dataset.status();
    EXPECT_THAT(dataset.status().message(), HasSubstr(tables[0]));
    EXPECT_THAT(dataset.status().message(), HasSubstr("truncated"));
  }
}

TEST_F(LevelDbTest, TruncationIsFoundWithACachedIndexToo) {
  options_.cache_dir = folder_ / "cache";
  WriteRecords(Path(), DbBackend::kLevelDb, NoiseRecords(500, 1000));
  ASSERT_TRUE(OpenDataset().ok());
  const std::string table = Files(".ldb").at(0);
  const auto time = std::filesystem::last_write_time(table);
  std::filesystem::resize_file(table, std::filesystem::file_size(table) / 2);
  std::filesystem::last_write_time(table, time);
  EXPECT_EQ(OpenDataset().status().code(), StatusCode::kDataLoss);
}

TEST_F(LevelDbTest, DamagedBytesOfATableAreFoundAndNamed) {
  WriteRecords(Path(), DbBackend::kLevelDb, NoiseRecords(500, 1000));
  const std::string table = Files(".ldb").at(0);
  std::string bytes = ReadWholeFile(table);
  for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 8; ++i) bytes[i] = static_cast<char>(~bytes[i]);
  WriteWholeFile(table, bytes);
  const auto dataset = OpenDataset();
  EXPECT_EQ(dataset.status().code(), StatusCode::kDataLoss) << dataset.status();
  EXPECT_THAT(dataset.status().message(), HasSubstr(table));
  EXPECT_THAT(dataset.status().message(), HasSubstr("checksum"));
}

TEST_F(LevelDbTest, DamageAfterTheIndexWasCachedIsFoundByRead) {
  options_.cache_dir = folder_ / "cache";
  const Records records = NoiseRecords(5000, 1000);
  // Of so many that Open, which samples some for the fingerprint, does not come by.
  WriteRecords(Path(), DbBackend::kLevelDb, records);
  ASSERT_TRUE(OpenDataset().ok());
  ASSERT_EQ(Files(".ldb").size(), 1u);
  const std::string table = Files(".ldb").at(0);
  const auto time = std::filesystem::last_write_time(table);
  std::string bytes = ReadWholeFile(table);
  const size_t place = bytes.find(records[1080].second.substr(200, 50));
  ASSERT_NE(place, std::string::npos);
  bytes[place] = static_cast<char>(~bytes[place]);
  WriteWholeFile(table, bytes);
  std::filesystem::last_write_time(table, time);
  for (const bool in_order : {true, false}) {
    auto dataset = OpenDataset();
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    Status status;
    std::string value;
    for (int i = in_order ? 1000 : 1080; status.ok() && i < 1100; ++i) status = (*dataset)->Read(i, &value);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(table));
  }
}

TEST_F(LevelDbTest, AMissingTableIsNamed) {
  WriteRecords(Path(), DbBackend::kLevelDb, NoiseRecords(100, 1000));
  const std::string table = Files(".ldb").at(0);
  std::filesystem::remove(table);
  const auto dataset = OpenDataset();
  EXPECT_EQ(dataset.status().code(), StatusCode::kDataLoss) << dataset.status();
  EXPECT_THAT(dataset.status().message(), HasSubstr(table));
}

TEST_F(LevelDbTest, DamagedBookkeepingIsNamed) {
  const Records records = NoiseRecords(100, 1000);
  WriteRecords(Path(), DbBackend::kLevelDb, records);
  std::string manifest;
  for (const auto& entry : std::filesystem::directory_iterator(Path())) {
    if (entry.path().filename().string().starts_with("MANIFEST")) manifest = entry.path();
  }
  for (const std::string& file : {manifest, Path() + "/CURRENT"}) {
    const std::string whole = ReadWholeFile(file);
    for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() / 3), NoiseBytes(1, whole.size())}) {
      WriteWholeFile(file, damaged);
      const auto dataset = OpenDataset();
      EXPECT_EQ(dataset.status().code(), StatusCode::kDataLoss) << dataset.status();
      EXPECT_THAT(dataset.status().message(), HasSubstr(Path()));
    }
    WriteWholeFile(file, whole);
  }
  EXPECT_TRUE(OpenDataset().ok());
}

TEST_F(LevelDbTest, ADamagedLogIsAnErrorAndNotFewerRecords) {
  const Records records = NoiseRecords(300, 1000);
  {
    const auto db = OpenForWriting();
    Put(db.get(), records, 0, 300);
    std::filesystem::copy(Path(), folder_ / "copy");
  }
  std::filesystem::remove_all(Path());
  std::filesystem::rename(folder_ / "copy", Path());
  const std::string log = Files(".log").at(0);
  std::string bytes = ReadWholeFile(log);
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  WriteWholeFile(log, bytes);
  const auto dataset = OpenDataset();
  EXPECT_EQ(dataset.status().code(), StatusCode::kDataLoss) << dataset.status();
  EXPECT_THAT(dataset.status().message(), HasSubstr(log));
}

TEST_F(LevelDbTest, RemovedUnderWayIsAnError) {
  WriteRecords(Path(), DbBackend::kLevelDb, NoiseRecords(300, 1000));
  auto dataset = OpenDataset();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::filesystem::remove_all(Path());
  EXPECT_EQ((*dataset)->CheckUnchanged().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT((*dataset)->CheckUnchanged().message(), HasSubstr(Path()));
}

// A database that lies in its log only is read from memory; that another took its place is noticed all the same.
TEST_F(LevelDbTest, AReplacedDatabaseOfLogsOnlyIsNoticed) {
  const Records records = NoiseRecords(100, 100);
  OpenForWriting().reset();
  std::filesystem::remove_all(Path());
  {
    const auto db = OpenForWriting();
    Put(db.get(), records, 0, 100);
  }
  auto dataset = OpenDataset();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ExpectReads(dataset->get(), records, 100);
  std::filesystem::remove_all(Path());
  {
    const auto db = OpenForWriting();
    Put(db.get(), NoiseRecords(100, 100, 777), 0, 100);
  }
  EXPECT_EQ((*dataset)->CheckUnchanged().code(), StatusCode::kFailedPrecondition);
}

TEST_F(LevelDbTest, TheWritersDatabasesNeedNoRecovery) {
  WriteRecords(Path(), DbBackend::kLevelDb, NoiseRecords(100, 1000));
  for (const std::string& log : Files(".log")) EXPECT_EQ(std::filesystem::file_size(log), 0u) << log;
  EXPECT_FALSE(Files(".ldb").empty());
}

}  // namespace
}  // namespace hp
