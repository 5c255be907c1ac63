#include "rendezvous/folder_store.h"

#include "test/unit/rendezvous/fake_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace hp {
namespace {

const std::string kA(32, 'a'), kB(32, 'b');

class FolderStoreTest : public testing::Test {
 protected:
  std::unique_ptr<FolderStore> Open(FakeFiles* files, const std::string& self) {
    return *FolderStore::Open("/shared/run", self, files, &clock_);
  }
  FakeServer server_;
  FakeFiles files_a_{&server_}, files_b_{&server_};
  FakeClock clock_;
};

TEST_F(FolderStoreTest, TheFirstTableStays) {
  const auto a = Open(&files_a_, kA), b = Open(&files_b_, kB);
  EXPECT_TRUE(*a->CreateTable(1, "of a"));
  EXPECT_FALSE(*b->CreateTable(1, "of b"));
  EXPECT_EQ(*b->ReadTable(1), "of a");
  EXPECT_EQ(*b->ReadTable(2), std::nullopt);
}

// The reply of a link is lost, the client asks again, and is told that the name exists.
TEST_F(FolderStoreTest, ALinkWhoseReplyWasLostCounts) {
  files_a_.lose_links = true;
  const auto a = Open(&files_a_, kA), b = Open(&files_b_, kB);
  EXPECT_TRUE(*a->CreateTable(1, "of a"));
  EXPECT_FALSE(*b->CreateTable(1, "of b"));
}

TEST_F(FolderStoreTest, ALinkThatFailedIsReported) {
  files_a_.fail_links = true;
  const auto created = Open(&files_a_, kA)->CreateTable(1, "of a");
  EXPECT_EQ(created.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(server_.files.empty()) << "a temporary file is left";
}

TEST_F(FolderStoreTest, ARenameWhoseReplyWasLostCounts) {
  files_a_.lose_renames = true;
  const auto a = Open(&files_a_, kA);
  EXPECT_TRUE(a->PutNode(kA, "waits").ok());
  EXPECT_TRUE(a->PutNode(kA, "runs").ok());
  EXPECT_EQ(a->ReadNodes()->at(kA), "runs");
}

TEST_F(FolderStoreTest, AMissThatWasRememberedIsLookedUpAgain) {
  files_b_.cache_misses = true;
  const auto a = Open(&files_a_, kA), b = Open(&files_b_, kB);
  ASSERT_EQ(*b->ReadTable(1), std::nullopt);
  ASSERT_EQ(files_b_.ReadFile("/shared/run/table.1").value(), std::nullopt);
  EXPECT_TRUE(*a->CreateTable(1, "of a"));
  ASSERT_EQ(files_b_.ReadFile("/shared/run/table.1").value(), std::nullopt) << "the fake remembers no miss";
  EXPECT_EQ(*b->ReadTable(1), "of a");
}

TEST_F(FolderStoreTest, OneHoldsTheLeaseUntilItIsSilentForTenSeconds) {
  const auto a = Open(&files_a_, kA), b = Open(&files_b_, kB);
  EXPECT_TRUE(*a->HoldLease(1, kA));
  for (int second = 0; second < 30; ++second) {
    EXPECT_FALSE(*b->HoldLease(1, kB));
    clock_.Advance(kNsPerSecond);
    EXPECT_TRUE(*a->HoldLease(1, kA));
  }
  EXPECT_FALSE(*b->HoldLease(1, kB));
  clock_.Advance(10 * kNsPerSecond);
  EXPECT_TRUE(*b->HoldLease(1, kB));
  EXPECT_FALSE(*a->HoldLease(1, kA)) << "the old holder has it still";
  EXPECT_TRUE(*a->HoldLease(2, kA)) << "of another incarnation";
}

TEST_F(FolderStoreTest, RecordsAreListedAndRemoved) {
  const auto a = Open(&files_a_, kA), b = Open(&files_b_, kB);
  EXPECT_TRUE(a->PutNode(kA, "1").ok());
  EXPECT_TRUE(b->PutNode(kB, "2").ok());
  EXPECT_EQ(a->ReadNodes()->size(), 2U);
  EXPECT_TRUE(files_b_.WriteFile("/shared/run/tmp." + kB + ".7", "killed before the rename").ok());
  EXPECT_TRUE(a->RemoveNode(kB).ok());
  EXPECT_TRUE(a->RemoveNode(kB).ok());
  EXPECT_EQ(a->ReadNodes()->size(), 1U);
  EXPECT_EQ(server_.files.size(), 1U) << "a temporary file is left";
}

TEST(FolderStoreOnDiskTest, DoesTheSame) {
  char folder[] = "/tmp/hpnode-store-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/runs/7";
  const auto a = *FolderStore::Open(path, kA), b = *FolderStore::Open(path, kB);
  EXPECT_TRUE(*a->CreateTable(1, "of a"));
  EXPECT_FALSE(*b->CreateTable(1, "of b"));
  EXPECT_EQ(*b->ReadTable(1), "of a");
  EXPECT_TRUE(a->PutNode(kA, "waits").ok());
  EXPECT_TRUE(a->PutNode(kA, "runs").ok());
  EXPECT_EQ(b->ReadNodes()->at(kA), "runs");
  EXPECT_TRUE(*a->HoldLease(1, kA));
  EXPECT_FALSE(*b->HoldLease(1, kB));
  EXPECT_EQ(FileSeam::Real()->ListFolder(path)->size(), 3U) << "temporary files are left";
  EXPECT_EQ(FolderStore::Open(path + "/table.1", kA).status().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hp
