#include "checkpoint/hdf5_file.h"

#include "hdf5/hdf5_api.h"
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

namespace hp {
namespace {

class Hdf5FileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status hdf5 = CheckHdf5(); !hdf5.ok()) GTEST_SKIP() << "SKIPPED: " << hdf5;
    char name[] = "/tmp/hp_hdf5_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string folder_;
};

// A source may take its time, or use the library itself: another thread's file is written meanwhile.
TEST_F(Hdf5FileTest, OtherFilesAreWrittenWhileASourceIsAsked) {
  const std::vector<float> other(6, 2.0F);
  BlobRefs others, blobs;
  others[{"fc", 0}] = BlobRef{Shape({2, 3}), other.data()};
  int asked = 0;
  BlobRef slow{Shape({3, 1 << 20}), nullptr};  // 12 MiB, in three pieces
  slow.source = [&](int64_t offset, std::span<char> piece) {
    const std::string path = folder_ + "/other" + std::to_string(asked++) + ".h5";
    std::future<Status> written = std::async(std::launch::async, [&] { return WriteHdf5Model(path, others); });
    EXPECT_EQ(written.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "the library is held";
    EXPECT_TRUE(ReadHdf5Model(folder_ + "/other0.h5").ok());
    EXPECT_FALSE(ReadHdf5Model(folder_ + "/missing.h5").ok()) << "errno is ENOENT";
    const std::vector<float> values(piece.size() / sizeof(float), static_cast<float>(offset >> 22));
    std::memcpy(piece.data(), values.data(), piece.size());
    return OkStatus();
  };
  blobs[{"conv", 0}] = slow;
  ASSERT_TRUE(WriteHdf5Model(folder_ + "/model.h5", blobs).ok());
  EXPECT_EQ(asked, 3);
  const StatusOr<CaffeModel> model = ReadHdf5Model(folder_ + "/model.h5");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<float>& data = model->blobs.at({"conv", 0}).data;
  ASSERT_EQ(data.size(), size_t{3} << 20);
  for (size_t row = 0; row < 3; ++row) EXPECT_EQ(data[(row << 20) + 5], static_cast<float>(row));
}

TEST_F(Hdf5FileTest, AnErrorOfTheSourceIsReturned) {
  BlobRefs blobs;
  blobs[{"conv", 0}] = BlobRef{Shape({2}), nullptr};
  blobs[{"conv", 0}].source = [](int64_t, std::span<char>) { return DataLoss("the part is cut"); };
  EXPECT_EQ(WriteHdf5Model(folder_ + "/model.h5", blobs).message(), "the part is cut");
  EXPECT_FALSE(ReadHdf5Model(folder_ + "/missing.h5").ok()) << "and nothing is held";
}

}  // namespace
}  // namespace hp
