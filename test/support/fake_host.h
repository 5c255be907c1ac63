#pragma once

#include "base/mutex.h"
#include "hp/status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace hp::test {

class FakeGpu;

/// The host that FakeGpus are in: what they may do with each other's memory, and what they did. Any thread; outlives
/// its GPUs.
class FakeHost {
 public:
  /// No GPU reaches the memory of the one at `pci_address` from now on.
  void Hide(const std::string& pci_address) HP_EXCLUDES(mutex_);
  /// After this many bytes every copy fails, and with it the GPU that does it.
  void FailAfter(size_t bytes) HP_EXCLUDES(mutex_);
  /// Bytes that went from GPU to GPU. IPC memory that is open now, and that ever was.
  size_t copied() const HP_EXCLUDES(mutex_);
  int open() const HP_EXCLUDES(mutex_);
  int opened() const HP_EXCLUDES(mutex_);

  // Of FakeGpu.
  void Add(FakeGpu* gpu) HP_EXCLUDES(mutex_);
  void Remove(FakeGpu* gpu) HP_EXCLUDES(mutex_);
  Status CanReach(const std::string& pci_address) const HP_EXCLUDES(mutex_);
  /// @return kInvalidArgument: it is of no GPU.
  Status CheckMemory(const void* memory, size_t bytes) const HP_EXCLUDES(mutex_);
  std::string Export(const void* memory) HP_EXCLUDES(mutex_);
  StatusOr<void*> Open(const std::string& handle) HP_EXCLUDES(mutex_);
  void Close(void* opened) HP_EXCLUDES(mutex_);
  /// A copy into a GPU's memory. @return kInternal: FailAfter.
  Status Copy(void* to, const void* from, size_t bytes) HP_EXCLUDES(mutex_);

 private:
  FakeGpu* OwnerOf(const void* memory, size_t bytes) const HP_REQUIRES(mutex_);

  mutable Mutex mutex_;  // after a GPU's that works, before one's that gives access to its memory
  std::set<FakeGpu*> gpus_ HP_GUARDED_BY(mutex_);
  std::set<std::string> hidden_ HP_GUARDED_BY(mutex_);
  std::map<std::string, void*> exported_ HP_GUARDED_BY(mutex_);
  std::multiset<void*> open_ HP_GUARDED_BY(mutex_);
  int opened_ HP_GUARDED_BY(mutex_) = 0;
  size_t copied_ HP_GUARDED_BY(mutex_) = 0, fail_after_ HP_GUARDED_BY(mutex_) = SIZE_MAX;
};

}  // namespace hp::test
