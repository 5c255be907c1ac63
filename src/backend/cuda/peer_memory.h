#pragma once

#include "backend/cuda/gpu.h"
#include "base/mutex.h"

#include <cstddef>
#include <map>
#include <string>

namespace hp {

/// Access of the real GPU `index` to memory of other GPUs and processes, by CUDA's runtime: implements the methods of
/// the same names of Gpu (gpu.h), which says what they do and return. Any thread.
class PeerMemory {
 public:
  /// @param index CUDA's device number.
  explicit PeerMemory(int index) : index_(index) {}

  Status CanReach(const std::string& pci_address) const;
  StatusOr<GpuIpcMemory> ExportIpc(const void* memory) const;
  StatusOr<void*> OpenIpc(const GpuIpcMemory& memory, size_t bytes) HP_EXCLUDES(mutex_);
  void CloseIpc(void* opened) HP_EXCLUDES(mutex_);
  Status OpenHere(void* memory, size_t bytes) const;

 private:
  std::string name() const { return "cuda:" + std::to_string(index_); }
  void Use() const;
  Status CanReach(int peer) const;

  const int index_;
  Mutex mutex_;
  std::multimap<void*, void*> opened_ HP_GUARDED_BY(mutex_);  // what OpenIpc gave, where its allocation begins
};

}  // namespace hp
