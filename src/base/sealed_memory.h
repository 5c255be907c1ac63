#pragma once

#include "hp/status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace hp {

/// Host memory that other processes of the host can map: a file without a name (memfd) that can neither grow nor shrink
/// any more, so that no access to it ends a process by SIGBUS. Mapped from construction to destruction; others keep
/// their own mappings. Movable, not copyable. Not synchronized.
///
/// Linux backs it by pages of 4 KiB, unless /sys/kernel/mm/transparent_hugepage/shmem_enabled says `advise`,
/// `within_size` or `always`.
class SealedMemory {
 public:
  SealedMemory() = default;  ///< empty
  /// Makes zeroed memory, aligned to a page, from 4 MiB on to 2 MiB. Its pages are there when it returns, on the NUMA
  /// node of the calling thread. @param bytes at least 1.
  /// @return kResourceExhausted: no memory, or the system refuses such a file; says why.
  static StatusOr<SealedMemory> Create(size_t bytes);
  /// Maps what a process of this host has made, as /proc shows it. What is no sealed memory is not opened: not even a
  /// pipe or a device would notice.
  /// @param pid,file as that process has them: SealedMemory::file(). @param inode of the memory, which tells whether
  /// the number is still the same file's. @param bytes to map, from its start.
  /// @return kFailedPrecondition: the process is gone, or this user may not open its files; kInvalidArgument: the file
  /// is no sealed memory of that inode, or smaller.
  static StatusOr<SealedMemory> Open(int64_t pid, int file, uint64_t inode, size_t bytes);
  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;  ///< swaps
  ~SealedMemory();

  std::span<std::byte> span() const { return {data_, bytes_}; }
  /// Its descriptor in this process, open as long as this lives; -1 after Open, where none is needed.
  int file() const { return file_; }
  uint64_t inode() const { return inode_; }

 private:
  Status Map(int file, size_t bytes);

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  int file_ = -1;
  uint64_t inode_ = 0;
};

}  // namespace hp
