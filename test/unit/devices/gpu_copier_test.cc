// How a node's GPU opens the memory of others: by a pointer within its process, by IPC from another one of its host.
#include "devices/gpu_copier.h"

#include "proto/wire.pb.h"
#include "test/support/fake_gpu.h"
#include "test/support/fake_host.h"

#include "devices/cuda_devices.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace hp::test {
namespace {

using testing::HasSubstr;

constexpr size_t kBytes = 10'000;

class GpuCopierTest : public testing::Test {
 protected:
  GpuCopierTest() {
    copier_ = *GpuCopier::Create(&ours_, {1, "us"});
    source_ = *ours_.AllocateShared(kBytes);
    memory_ = *theirs_.AllocateShared(kBytes);
    for (size_t i = 0; i < kBytes; ++i) bytes_.push_back(static_cast<std::byte>(i % 251));
    EXPECT_TRUE(ours_.CopyNow(source_.data(), bytes_.data(), kBytes).ok());
  }
  std::string HandleIn(const ProcessPlace& place) { return GpuHandleOf(&theirs_, place, memory_.span()); }
  /// Opens it, copies from byte `at` on, closes it.
  void CheckCopies(const std::string& handle, size_t at) {
    const StatusOr<std::byte*> opened = copier_->Open(handle, kBytes);
    ASSERT_TRUE(opened.ok()) << opened.status();
    copier_->Copy(*opened + at, source_.data() + at, kBytes - at);
    const auto mark = copier_->Record();
    EXPECT_EQ(host_.copied(), 0u) << "a copy is done when somebody waits";
    ASSERT_TRUE(copier_->Wait(mark).ok());
    copier_->Close(*opened);
    std::vector<std::byte> there(kBytes);
    ASSERT_TRUE(theirs_.CopyNow(there.data(), memory_.data(), kBytes).ok());
    EXPECT_TRUE(std::equal(there.begin() + at, there.end(), bytes_.begin() + at));
    EXPECT_EQ(there[at - 1], std::byte{0});
  }
  Status OpenError(const std::string& handle, size_t bytes = kBytes) { return copier_->Open(handle, bytes).status(); }
  std::string Changed(const std::function<void(GpuMemoryHandle*)>& change) {
    GpuMemoryHandle handle;
    EXPECT_TRUE(handle.ParseFromString(HandleIn({1, "them"})));
    change(&handle);
    return handle.SerializeAsString();
  }

  FakeHost host_;
  FakeGpu ours_{{.index = 1, .protect = true, .host = &host_}};
  FakeGpu theirs_{{.index = 2, .protect = true, .host = &host_}};
  std::unique_ptr<DeviceCopier> copier_;
  Buffer source_, memory_;
  std::vector<std::byte> bytes_;
};

TEST_F(GpuCopierTest, WithinAProcessByPointer) {
  CheckCopies(HandleIn({1, "us"}), 100);
  EXPECT_EQ(host_.opened(), 0);
}

TEST_F(GpuCopierTest, BetweenProcessesByIpc) {
  CheckCopies(HandleIn({1, "them"}), 100);
  EXPECT_EQ(host_.opened(), 1);
  EXPECT_EQ(host_.open(), 0);
}

/// An allocation is opened from its begin on, whatever part of it was told of.
TEST_F(GpuCopierTest, APartOfAnAllocation) {
  constexpr size_t kFirst = 4096;
  for (const char* process : {"us", "them"}) {
    const std::string handle = GpuHandleOf(&theirs_, {1, process}, memory_.span().subspan(kFirst));
    const StatusOr<std::byte*> opened = copier_->Open(handle, kBytes - kFirst);
    ASSERT_TRUE(opened.ok()) << opened.status();
    copier_->Copy(*opened, source_.data() + kFirst, kBytes - kFirst);
    ASSERT_TRUE(copier_->Wait(copier_->Record()).ok());
    copier_->Close(*opened);
    std::vector<std::byte> there(kBytes);
    ASSERT_TRUE(theirs_.CopyNow(there.data(), memory_.data(), kBytes).ok());
    EXPECT_TRUE(std::equal(there.begin() + kFirst, there.end(), bytes_.begin() + kFirst));
    EXPECT_EQ(there[kFirst - 1], std::byte{0});
  }
}

/// A peer names no address of this process but what a GPU here has told of; and none of the GPU that would copy.
TEST_F(GpuCopierTest, OnlyMemoryThatWasToldOf) {
  const StatusOr<Buffer> secret = theirs_.AllocateShared(kBytes);
  const auto naming = [&](std::byte* address) {
    return Changed([address](GpuMemoryHandle* handle) {
      handle->set_process(ProcessPlace{1, "us"}.process());
      handle->set_address(reinterpret_cast<uint64_t>(address));
    });
  };
  for (std::byte* address : {secret->data(), source_.data(), memory_.data() + 1}) {
    EXPECT_EQ(OpenError(naming(address)).code(), StatusCode::kInvalidArgument);
  }
  (void)GpuHandleOf(&ours_, {1, "us"}, source_.span());
  EXPECT_EQ(OpenError(naming(source_.data())).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(OpenError(naming(memory_.data())).ok());
}

TEST_F(GpuCopierTest, NotBetweenHosts) {
  EXPECT_EQ(OpenError(HandleIn({2, "us"})).message(), "they are on different hosts");
  const auto nowhere = GpuCopier::Create(&ours_, {0, "us"});
  EXPECT_EQ((*nowhere)->Open(HandleIn({0, "us"}), kBytes).status().message(), "they are on different hosts")
      << "no host id is nobody's";
}

TEST_F(GpuCopierTest, NotWithoutAccess) {
  host_.Hide("0000:00:02.0");
  for (const char* process : {"us", "them"}) {
    EXPECT_EQ(OpenError(HandleIn({1, process})).code(), StatusCode::kFailedPrecondition);
  }
  FakeGpu alone;
  const auto memory = alone.AllocateShared(kBytes);
  EXPECT_EQ(OpenError(GpuHandleOf(&alone, {1, "them"}, memory->span())).message(), "cuda:0 exports no memory");
}

TEST_F(GpuCopierTest, RubbishOpensNothing) {
  EXPECT_EQ(OpenError("rubbish").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenError("").code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(OpenError(HandleIn({1, "us"}), kBytes + 1).message(),
              HasSubstr("covers 10000 bytes; expected at least 10001"));
  const auto errors = {
      OpenError(Changed([](GpuMemoryHandle* handle) { handle->set_ipc_handle("made up"); })),
      OpenError(Changed([](GpuMemoryHandle* handle) { handle->set_ipc_offset(uint64_t{1} << 40); })),
      OpenError(Changed([](GpuMemoryHandle* handle) {
        handle->set_process(ProcessPlace{1, "us"}.process());
        handle->set_address(4096);
      })),
      OpenError(Changed([](GpuMemoryHandle* handle) {
                  handle->set_process(ProcessPlace{1, "us"}.process());
                  handle->set_bytes(uint64_t{1} << 40);
                }),
                size_t{1} << 40),
  };
  for (const Status& error : errors) EXPECT_EQ(error.code(), StatusCode::kInvalidArgument) << error;
  EXPECT_EQ(host_.open(), 0);
}

}  // namespace
}  // namespace hp::test
