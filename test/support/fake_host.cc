#include "test/support/fake_host.h"

#include "test/support/fake_gpu.h"

#include "glog/logging.h"

#include <cstring>

namespace hp::test {

void FakeHost::Hide(const std::string& pci_address) {
  MutexLock lock(&mutex_);
  hidden_.insert(pci_address);
}

void FakeHost::FailAfter(size_t bytes) {
  MutexLock lock(&mutex_);
  fail_after_ = bytes;
}

size_t FakeHost::copied() const {
  MutexLock lock(&mutex_);
  return copied_;
}

int FakeHost::open() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(open_.size());
}

int FakeHost::opened() const {
  MutexLock lock(&mutex_);
  return opened_;
}

void FakeHost::Add(FakeGpu* gpu) {
  MutexLock lock(&mutex_);
  gpus_.insert(gpu);
}

void FakeHost::Remove(FakeGpu* gpu) {
  MutexLock lock(&mutex_);
  gpus_.erase(gpu);
}

Status FakeHost::CanReach(const std::string& pci_address) const {
  MutexLock lock(&mutex_);
  if (!hidden_.contains(pci_address)) return OkStatus();
  return FailedPrecondition("no access to the memory of the GPU at %s", pci_address.c_str());
}

FakeGpu* FakeHost::OwnerOf(const void* memory, size_t bytes) const {
  for (FakeGpu* gpu : gpus_) {
    if (gpu->Owns(memory, bytes)) return gpu;
  }
  return nullptr;
}

Status FakeHost::CheckMemory(const void* memory, size_t bytes) const {
  MutexLock lock(&mutex_);
  return OwnerOf(memory, bytes) != nullptr ? OkStatus() : InvalidArgument("no memory of a GPU");
}

std::string FakeHost::Export(const void* memory) {
  MutexLock lock(&mutex_);
  CHECK(OwnerOf(memory, 1) != nullptr);
  std::string handle = "ipc " + std::to_string(exported_.size());
  exported_[handle] = const_cast<void*>(memory);
  return handle;
}

StatusOr<void*> FakeHost::Open(const std::string& handle) {
  MutexLock lock(&mutex_);
  const auto it = exported_.find(handle);
  if (it == exported_.end()) return InvalidArgument("the driver knows no such handle");
  open_.insert(it->second);
  ++opened_;
  return it->second;
}

void FakeHost::Close(void* opened) {
  MutexLock lock(&mutex_);
  const auto it = open_.find(opened);
  CHECK(it != open_.end()) << "memory is closed that is not open";
  open_.erase(it);
}

Status FakeHost::Copy(void* to, const void* from, size_t bytes) {
  MutexLock lock(&mutex_);
  FakeGpu* const owner = OwnerOf(to, bytes);
  CHECK(owner != nullptr) << "a copy into memory that is no GPU's";
  if (copied_ + bytes > fail_after_) return InternalError("the GPU fell off the bus in a copy");
  owner->SetAccess(true);
  std::memcpy(to, from, bytes);
  owner->SetAccess(false);
  copied_ += bytes;
  return OkStatus();
}

}  // namespace hp::test
