// Memory that processes share: what the other one wrote is there, and what is no such memory is not opened.
#include "base/sealed_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

namespace hp {
namespace {

using testing::HasSubstr;

constexpr size_t kSharedBytes = 100'000;

/// Runs `work` in a process of its own. @return whether it said true.
bool InChild(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

uint64_t InodeOf(int file) {
  struct stat status;
  EXPECT_EQ(fstat(file, &status), 0);
  return status.st_ino;
}

Status OpenError(int file, uint64_t inode, size_t bytes = kSharedBytes) {
  return SealedMemory::Open(getpid(), file, inode, bytes).status();
}

TEST(SealedMemory, IsZeroedAndAligned) {
  for (const size_t bytes : {size_t{1}, kSharedBytes, size_t{5} << 20}) {
    const StatusOr<SealedMemory> memory = SealedMemory::Create(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    const std::span<std::byte> span = memory->span();
    EXPECT_EQ(span.size(), bytes);
    EXPECT_EQ(reinterpret_cast<size_t>(span.data()) % (bytes < (size_t{4} << 20) ? 4096 : size_t{2} << 20), 0u);
    EXPECT_TRUE(std::all_of(span.begin(), span.end(), [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(SealedMemory, AnotherProcessWritesIntoIt) {
  const StatusOr<SealedMemory> memory = SealedMemory::Create(kSharedBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  memory->span()[10] = std::byte{1};
  const pid_t owner = getpid();
  EXPECT_TRUE(InChild([&] {
    const auto opened = SealedMemory::Open(owner, memory->file(), memory->inode(), kSharedBytes);
    if (!opened.ok() || opened->span()[10] != std::byte{1}) return false;
    opened->span()[kSharedBytes - 1] = std::byte{7};
    return true;
  }));
  EXPECT_EQ(memory->span()[kSharedBytes - 1], std::byte{7});
}

TEST(SealedMemory, OutlivesItsOwner) {
  StatusOr<SealedMemory> memory = SealedMemory::Create(kSharedBytes);
  const int file = memory->file();
  const uint64_t inode = memory->inode();
  const StatusOr<SealedMemory> opened = SealedMemory::Open(getpid(), file, inode, kSharedBytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  *memory = SealedMemory();
  opened->span()[0] = std::byte{3};
  EXPECT_EQ(opened->span()[0], std::byte{3});
  EXPECT_EQ(OpenError(file, inode).code(), StatusCode::kFailedPrecondition) << "its descriptor is closed";
}

TEST(SealedMemory, NeitherGrowsNorShrinks) {
  const StatusOr<SealedMemory> memory = SealedMemory::Create(kSharedBytes);
  for (const size_t bytes : {size_t{0}, 2 * kSharedBytes}) {
    EXPECT_EQ(ftruncate(memory->file(), static_cast<off_t>(bytes)), -1);
    EXPECT_EQ(errno, EPERM);
  }
}

/// A number in a handle may stand for anything.
TEST(SealedMemory, OpensNothingElse) {
  const StatusOr<SealedMemory> memory = SealedMemory::Create(kSharedBytes);
  EXPECT_THAT(OpenError(memory->file(), memory->inode() + 1).message(), HasSubstr("is not the memory that it stands"));
  EXPECT_THAT(OpenError(memory->file(), memory->inode(), 2 * kSharedBytes).message(), HasSubstr("has fewer than"));
  EXPECT_EQ(OpenError(-1, memory->inode()).code(), StatusCode::kFailedPrecondition);

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::FILE* const file = std::tmpfile();
  ASSERT_EQ(ftruncate(fileno(file), kSharedBytes), 0);
  const int folder = open("/", O_RDONLY | O_DIRECTORY);
  for (const int other : {ends[0], ends[1], fileno(file), folder}) {
    EXPECT_EQ(OpenError(other, InodeOf(other)).code(), StatusCode::kInvalidArgument);
  }
  const int unsealed = memfd_create("any", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, kSharedBytes), 0);
  EXPECT_THAT(OpenError(unsealed, InodeOf(unsealed)).message(), HasSubstr("may shrink"));
  for (const int other : {ends[0], ends[1], folder, unsealed}) close(other);
  std::fclose(file);

  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  const Status status = SealedMemory::Open(gone, memory->file(), memory->inode(), kSharedBytes).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("can't be opened (/proc/" + std::to_string(gone) + "/fd/"));
}

/// Growing a file beyond the limit would end the process.
TEST(SealedMemory, TheLimitOfFileSizesIsSaid) {
  EXPECT_TRUE(InChild([] {
    const rlimit limit{kSharedBytes / 2, kSharedBytes / 2};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const Status status = SealedMemory::Create(kSharedBytes).status();
    return status.code() == StatusCode::kResourceExhausted && status.message().ends_with("(ulimit -f)");
  }));
}

}  // namespace
}  // namespace hp
