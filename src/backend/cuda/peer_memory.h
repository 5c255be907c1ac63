#pragma once

#include "backend/cuda/gpu.h"
#include "base/mutex.h"

#include <cstddef>
#include <map>
#include <string>

namespace hp {

/// How the real GPU `index` comes by memory of others: the part of Gpu of that name, by CUDA's runtime. Any thread.
class PeerMemory {
 public:
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
