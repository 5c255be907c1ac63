#pragma once

#include "hp/status.h"
#include "transport/verbs/cq_user.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/region.h"

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>

namespace hp {

/// Makes what the adapter wrote into GPU memory visible to the GPU. A completion says that the bytes have left the
/// adapter, not that they have passed the PCIe bridges; a read of the same memory by the same adapter returns only
/// after them. So it reads one byte over a queue pair that is connected to itself, in a protection domain of its own,
/// which is the only one with remotely readable memory. Progress thread. Source: NCCL, transport/net_ib.cc,
/// ncclIbIflush.
class VerbsFlush : public CqUser {
 public:
  using Done = std::function<void(const Status&)>;

  /// Makes nothing on the device before the first Flush. @param progress must outlive it.
  VerbsFlush(std::shared_ptr<VerbsDevice> device, ProgressThread* progress);

  /// Calls `done` once: ok when everything that was written to `region` before this call is visible to the GPU; else
  /// why that is not known (kUnavailable, kFailedPrecondition). An error may be reported from within.
  /// @param address any byte of the region.
  void Flush(const std::shared_ptr<VerbsRegion>& region, const std::byte* address, Done done);
  /// Destroys everything on the device; flushes that wait are not reported.
  void Stop();

  // CqUser
  void Run() override {}
  bool Poll() override;
  void Sleep() override;
  void OnAsyncError(const std::string& what, Cause cause) override;

 private:
  Status Prepare();
  Status Connect();
  StatusOr<uint32_t> KeyOf(const std::shared_ptr<VerbsRegion>& region);
  Status Post(uint32_t rkey, const std::byte* address);
  /// As far as there is room in the send queue.
  void PostQueued();
  void FailAll(const Status& status);

  const std::shared_ptr<VerbsDevice> device_;
  ProgressThread* const progress_;
  PdHandle pd_;
  CqHandle cq_;
  std::array<std::byte, 8> target_ = {};
  MrHandle target_region_;
  std::unique_ptr<QueuePair> qp_;
  struct Readable {
    std::weak_ptr<VerbsRegion> region;
    MrHandle mr;
  };
  std::map<const VerbsRegion*, Readable> readable_;
  struct Request {
    std::shared_ptr<VerbsRegion> region;
    const std::byte* address = nullptr;
    Done done;
  };
  std::deque<Request> queued_;  // not posted yet
  std::deque<Done> waiting_;    // in the order of the posts
};

}  // namespace hp
