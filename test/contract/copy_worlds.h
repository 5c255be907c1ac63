#pragma once

#include "base/mutex.h"
#include "test/contract/fixtures.h"
#include "transport/copy/device_copier.h"

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// A GPU whose memory is the host's. A copy is done when somebody waits for it.
class FakeCopier : public DeviceCopier {
 public:
  explicit FakeCopier(std::string name = "host");
  /// `bytes` as memory that others open: a handle is an address and a length.
  static DeviceMemory Describe(std::span<std::byte> bytes);

  std::string name() const override { return name_; }
  const DeviceMemory& probe() const override { return probe_; }
  StatusOr<std::byte*> Open(std::string_view handle, size_t bytes) override HP_EXCLUDES(mutex_);
  void Close(std::byte* opened) override HP_EXCLUDES(mutex_);
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override HP_EXCLUDES(mutex_);
  Mark Record() override HP_EXCLUDES(mutex_);
  Status Wait(Mark mark) override HP_EXCLUDES(mutex_);

  /// Copies wait until Release. For tests that do something while one is under way.
  void Hold() HP_EXCLUDES(mutex_);
  void Release() HP_EXCLUDES(mutex_);
  /// Waits until somebody waits for a copy that is held.
  void AwaitHeld() HP_EXCLUDES(mutex_);
  /// From now on Wait says this.
  void Fail(const Status& status) HP_EXCLUDES(mutex_);
  /// Regions that are open now, and ever were; bytes copied.
  int open() HP_EXCLUDES(mutex_);
  int opened() HP_EXCLUDES(mutex_);
  size_t copied() HP_EXCLUDES(mutex_);

 private:
  struct Pending {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };

  const std::string name_;
  std::vector<std::byte> probe_bytes_;
  const DeviceMemory probe_;
  Mutex mutex_;
  CondVar changed_;
  bool hold_ HP_GUARDED_BY(mutex_) = false, held_ HP_GUARDED_BY(mutex_) = false;
  Status failure_ HP_GUARDED_BY(mutex_);
  int open_ HP_GUARDED_BY(mutex_) = 0, opened_ HP_GUARDED_BY(mutex_) = 0;
  size_t copied_ HP_GUARDED_BY(mutex_) = 0;
  std::deque<Pending> pending_ HP_GUARDED_BY(mutex_);
  Mark begun_ HP_GUARDED_BY(mutex_) = 0, done_ HP_GUARDED_BY(mutex_) = 0;  // copies
};

/// CopyTransports around the transports of `beneath`. All of this process's memory is registered, so that every place
/// that is not empty is copied into.
TransportKind CopyKind(const std::string& name,
                       std::function<std::unique_ptr<TransportWorld>(const WorldOptions&)> beneath);

}  // namespace hp
