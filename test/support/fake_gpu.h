#pragma once

#include "backend/cuda/gpu.h"
#include "base/mutex.h"
#include "test/support/fake_host.h"

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp::test {

/// A GPU on the host. Nothing that is queued is done before somebody waits for it; then queues take turns at random, as
/// far as Order and marks allow. So a copy whose source is reused too early, or a result that is read too early, shows.
/// Captured work is a recording, as CUDA graphs are.
class FakeGpu : public Gpu {
 public:
  struct Options {
    int index = 0;
    uint32_t seed = 1;  ///< of the order among queues
    size_t memory_bytes = size_t{4} << 30;
    /// Memory of the device can only be touched by queued work: whoever else does gets a SIGSEGV.
    bool protect = false;
    bool dma_buf = false;
    bool repeats = true;                                ///< false: RunCaptured calls all work each time
    std::function<void(const FakeGpu&)> on_close = {};  ///< called by the destructor
    FakeHost* host = nullptr;                           ///< where it reaches other GPUs' memory; null: it reaches none
  };

  explicit FakeGpu(const Options& options);
  FakeGpu() : FakeGpu(Options{}) {}
  ~FakeGpu() override;

  /// The device fails from now on: Wait and Synchronize say `status`.
  void Fail(const Status& status) override HP_EXCLUDES(mutex_);
  /// Wait for a mark that is recorded from now on does not return before Release or Fail: the host does not hear that
  /// the work in front of it is done.
  void Hold() HP_EXCLUDES(mutex_);
  void Release() HP_EXCLUDES(mutex_);
  /// Waits until Wait has told somebody of the failure.
  void AwaitTold() HP_EXCLUDES(mutex_);
  /// How many recordings RunCaptured made, and how often it replayed one.
  int recorded() const HP_EXCLUDES(mutex_);
  int repeated() const HP_EXCLUDES(mutex_);
  /// How often Copy was called.
  int copies() const { return copies_; }
  /// How many kernels were put into queues.
  int launches() const { return launches_; }
  /// Bytes that were put into queues to go to the host's memory and to come from there.
  size_t uploaded() const { return uploaded_; }
  /// How often Upload was called; how often with a source that AllocateHost did not give, so that a real GPU's driver
  /// would have copied it at once.
  int uploads() const { return uploads_; }
  int unpinned_uploads() const { return unpinned_uploads_; }
  size_t downloaded() const { return downloaded_; }
  /// The most memory that was allocated at once.
  size_t peak_bytes() const HP_EXCLUDES(mutex_);

  std::string name() const override { return "cuda:" + std::to_string(info_.index); }
  const GpuInfo& info() const override { return info_; }
  size_t free_bytes() const override HP_EXCLUDES(mutex_);
  StatusOr<Buffer> Allocate(size_t bytes) override HP_EXCLUDES(mutex_);
  StatusOr<Buffer> AllocateHost(size_t bytes) override HP_EXCLUDES(mutex_);
  void Upload(Queue queue, void* to, const void* from, size_t bytes) override;
  void Download(Queue queue, void* to, const void* from, size_t bytes) override;
  void Copy(Queue queue, void* to, const void* from, size_t bytes) override;
  void Order(Queue first, Queue then) override HP_EXCLUDES(mutex_);
  Mark Record(Queue queue) override HP_EXCLUDES(mutex_);
  void Follow(Mark mark, Queue then) override { Push(then, {.needed = mark}); }
  Status Wait(Mark mark) override HP_EXCLUDES(mutex_);
  Status Synchronize() override HP_EXCLUDES(mutex_);
  void RunCaptured(const CaptureKey& key, const std::function<void()>& work) override HP_EXCLUDES(mutex_);
  GpuStream stream(Queue queue) override;
  Status ExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd, uint64_t* offset) override;
  Status CopyNow(void* to, const void* from, size_t bytes) override HP_EXCLUDES(mutex_);
  Status CanReach(const std::string& pci_address) override;
  StatusOr<GpuIpcMemory> ExportIpc(const void* memory) override;
  StatusOr<void*> OpenIpc(const GpuIpcMemory& memory, size_t bytes) override;
  void CloseIpc(void* opened) override;
  Status OpenHere(void* memory, size_t bytes) override;
  void CopyAcross(Queue queue, void* to, const void* from, size_t bytes) override;

  // Of its host.
  bool Owns(const void* memory, size_t bytes) const;
  /// From the first true to the last false its memory can be touched. Any thread.
  void SetAccess(bool allowed) HP_EXCLUDES(access_mutex_);

 private:
  using Work = std::function<void()>;
  /// Some work, or a mark, or a wait for one.
  struct Item {
    Work work = {};
    Mark reached = 0, needed = 0;
  };
  class Stream;

  void Push(Queue queue, Item item) HP_EXCLUDES(mutex_);
  bool IsPinned(const void* memory, size_t bytes) const HP_EXCLUDES(mutex_);
  /// Does one item of some queue. @return false: there is none that may run.
  bool Step() HP_REQUIRES(mutex_);
  bool Reaches(const std::byte* memory, size_t bytes) const HP_REQUIRES(mutex_);
  size_t UsedBytes() const HP_REQUIRES(mutex_);

  const Options options_;
  GpuInfo info_;
  std::vector<std::unique_ptr<Stream>> streams_;

  mutable Mutex mutex_;
  std::mt19937 random_ HP_GUARDED_BY(mutex_);
  std::array<std::deque<Item>, kQueues> queues_ HP_GUARDED_BY(mutex_);
  Mark last_mark_ HP_GUARDED_BY(mutex_) = 0;
  std::set<Mark> reached_ HP_GUARDED_BY(mutex_);
  std::vector<Work>* recording_ HP_GUARDED_BY(mutex_) = nullptr;
  std::set<CaptureKey> seen_ HP_GUARDED_BY(mutex_);
  std::map<CaptureKey, std::vector<Work>> recordings_ HP_GUARDED_BY(mutex_);
  int recorded_ HP_GUARDED_BY(mutex_) = 0, repeated_ HP_GUARDED_BY(mutex_) = 0;
  std::atomic<int> copies_{0}, launches_{0};
  Status failure_ HP_GUARDED_BY(mutex_);
  CondVar changed_;
  std::optional<Mark> held_behind_ HP_GUARDED_BY(mutex_);  // later marks are not told of
  bool told_ HP_GUARDED_BY(mutex_) = false;
  std::atomic<size_t> uploaded_ = 0, downloaded_ = 0;
  std::atomic<int> uploads_ = 0, unpinned_uploads_ = 0;
  std::map<const std::byte*, size_t> pinned_ HP_GUARDED_BY(mutex_);  // begin, bytes
  Mutex access_mutex_;                                               // innermost
  int access_ HP_GUARDED_BY(access_mutex_) = 0;
  std::byte* memory_ = nullptr;  // where all of the device's memory lies
  size_t peak_bytes_ HP_GUARDED_BY(mutex_) = 0;
  std::map<size_t, size_t> used_ HP_GUARDED_BY(mutex_);  // offset, bytes
  struct Reach {
    size_t bytes = 0;
    void* allocation = nullptr;  // by IPC: as the host opened it
  };
  std::multimap<std::byte*, Reach> reach_ HP_GUARDED_BY(mutex_);  // memory of others that is open
};

}  // namespace hp::test
