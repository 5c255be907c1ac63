#include "base/sealed_memory.h"

#include "base/format.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace hp {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

size_t MappedBytes(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// A descriptor that is closed at the end.
class File {
 public:
  explicit File(int number) : number_(number) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }
  int Take() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// What made the last call of the system fail.
std::string LastError() { return std::strerror(errno); }

Status Refused(size_t bytes, const std::string& why) {
  return ResourceExhausted("cannot allocate %s that other processes can map: %s", MegaBytes(bytes).c_str(),
                           why.c_str());
}

Status NotOpened(int64_t pid, const std::string& link) {
  return FailedPrecondition("the memory of process %lld can't be opened (%s): %s", static_cast<long long>(pid),
                            link.c_str(), LastError().c_str());
}

}  // namespace

// A file beyond RLIMIT_FSIZE would end the process by SIGXFSZ.
StatusOr<SealedMemory> SealedMemory::Create(size_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < MappedBytes(bytes)) {
    return Refused(bytes, "it is over the limit of file sizes (ulimit -f)");
  }
  File file(memfd_create("hpnode", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) return Refused(bytes, "memfd_create: " + LastError());
  if (ftruncate(file.number(), static_cast<off_t>(MappedBytes(bytes))) != 0) return Refused(bytes, LastError());
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) return Refused(bytes, "F_ADD_SEALS: " + LastError());
  struct stat status;
  if (fstat(file.number(), &status) != 0) return Refused(bytes, "fstat: " + LastError());
  SealedMemory memory;
  HP_RETURN_IF_ERROR(memory.Map(file.number(), bytes));
  memory.inode_ = status.st_ino;
  memory.file_ = file.Take();
  return memory;
}

StatusOr<SealedMemory> SealedMemory::Open(int64_t pid, int file, uint64_t inode, size_t bytes) {
  const std::string link = Format("/proc/%lld/fd/%d", static_cast<long long>(pid), file);
  // Has no effect on what it is, whatever it is.
  const File found(open(link.c_str(), O_PATH | O_CLOEXEC));
  if (found.number() < 0) return NotOpened(pid, link);
  const std::string ours = Format("/proc/self/fd/%d", found.number());
  struct stat status;
  if (fstat(found.number(), &status) != 0) return NotOpened(pid, link);
  std::string target(kPage, '\0');
  const ssize_t length = readlink(ours.c_str(), target.data(), target.size());
  const bool memory_file = length > 0 && target.starts_with("/memfd:") && S_ISREG(status.st_mode);
  if (!memory_file || status.st_ino != inode)
    return InvalidArgument("%s is not the memory that it stands for", link.c_str());
  const File opened(open(ours.c_str(), O_RDWR | O_CLOEXEC));
  if (opened.number() < 0) return NotOpened(pid, link);
  const int seals = fcntl(opened.number(), F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) return InvalidArgument("%s may shrink", link.c_str());
  if (fstat(opened.number(), &status) != 0 || static_cast<uint64_t>(status.st_size) < bytes) {
    return InvalidArgument("%s has fewer than %zu bytes", link.c_str(), bytes);
  }
  SealedMemory memory;
  HP_RETURN_IF_ERROR(memory.Map(opened.number(), bytes));
  memory.inode_ = inode;
  return memory;
}

// In the middle of a larger reservation where huge pages may be had: they need addresses at a multiple of theirs. All
// pages are there at the end: else who writes first, which may be another process, decides on which NUMA node a page
// lies; and one fault for each page of a peer's memory takes longer than what is first copied there.
Status SealedMemory::Map(int file, size_t bytes) {
  const size_t mapped = MappedBytes(bytes);
  const bool huge = bytes >= 2 * kHugePage;
  std::byte* at = nullptr;
  size_t reserved = 0, skip = 0;
  if (huge) {
    reserved = mapped + kHugePage;
    void* const room = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return Refused(bytes, LastError());
    at = static_cast<std::byte*>(room);
    skip = (kHugePage - reinterpret_cast<size_t>(at) % kHugePage) % kHugePage;
    at += skip;
  }
  void* const map = mmap(at, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | (huge ? MAP_FIXED : 0), file, 0);
  const Status status = map == MAP_FAILED ? Refused(bytes, LastError()) : OkStatus();
  if (huge) {
    if (skip > 0) munmap(at - skip, skip);
    if (!status.ok()) munmap(at, mapped);
    if (reserved > skip + mapped) munmap(at + mapped, reserved - skip - mapped);
  }
  HP_RETURN_IF_ERROR(status);
  data_ = static_cast<std::byte*>(map);
  bytes_ = bytes;
  if (huge) madvise(data_, mapped, MADV_HUGEPAGE);
  // Kernels before 5.14 refuse this; there pages come when they are used.
  if (madvise(data_, mapped, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) return Refused(bytes, LastError());
  return OkStatus();
}

SealedMemory::SealedMemory(SealedMemory&& other) noexcept { *this = std::move(other); }

SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  std::swap(inode_, other.inode_);
  return *this;
}

SealedMemory::~SealedMemory() {
  if (data_ != nullptr) munmap(data_, MappedBytes(bytes_));
  if (file_ >= 0) close(file_);
}

}  // namespace hp
