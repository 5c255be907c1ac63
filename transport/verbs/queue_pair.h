#pragma once

#include "hp/status.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/port.h"
#include "transport/verbs/settings.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hp {

/// The address of a queue pair, as its peer needs it.
struct QpAddress {
  uint32_t number = 0;
  uint32_t psn = 0;  ///< of the first packet that it sends
};

/// The path from our port to a peer's.
struct Path {
  uint8_t port = 1;            ///< ours
  uint32_t gid_index = 0;      ///< ours
  ibv_mtu mtu = IBV_MTU_1024;  ///< the smaller one of both ports
  PortAddress peer;
};

/// One reliable-connected queue pair, with bookkeeping of its send queue: how many work requests fit, and a tag of the
/// owner for each request until it is done. Receives come from a shared receive queue. Guarded by its owner's lock;
/// nothing blocks.
class QueuePair {
 public:
  struct Spec {
    ibv_cq* cq = nullptr;     ///< for sends and receives
    ibv_srq* srq = nullptr;   ///< null: it receives nothing
    int access = 0;           ///< what the peer may do, IBV_ACCESS_REMOTE_...
    uint8_t port = 1;         ///< ours
    void* context = nullptr;  ///< qp_context, a CqUser*: gets asynchronous events
  };
  /// Makes a queue pair in state RESET with a random PSN; `spec.cq` and `pd` must outlive it. Inline data is halved
  /// until the device accepts it.
  /// @param id of the queue pair for its owner, below 2^15; a part of its work request ids (IdOf).
  /// @return kFailedPrecondition: the device refuses.
  static StatusOr<std::unique_ptr<QueuePair>> Create(Verbs* verbs, ibv_pd* pd, const Spec& spec,
                                                     const VerbsSettings& settings, uint32_t id);

  /// Takes it to RTS (INIT, ready to receive, ready to send), connected to `peer`. The peer's must become ready to
  /// receive before anything is posted. @return kFailedPrecondition: a step failed; says which.
  Status Connect(const Path& path, const QpAddress& peer, const VerbsSettings& settings);
  /// The same with the attributes that librdmacm has for `id` (route, PSNs). @param mtu the most that both ports take.
  Status Connect(rdma_cm_id* id, ibv_mtu mtu, const VerbsSettings& settings);
  /// Takes it to the error state: all outstanding requests complete with an error (flushed).
  void Fail();

  QpAddress address() const { return {qp_->qp_num, psn_}; }
  uint32_t inline_bytes() const { return inline_bytes_; }  ///< the most bytes of an inline request
  /// The number of work requests that can be posted now.
  uint32_t room() const { return depth_ - static_cast<uint32_t>(posted_ - retired_); }
  bool idle() const { return posted_ == retired_; }  ///< every posted request was retired
  uint32_t depth() const { return depth_; }          ///< of the send queue
  /// The tag of request `id`, which was posted and not retired.
  uint64_t TagOf(uint64_t id) const { return tags_[(id & kSequenceMask) % depth_]; }

  /// Posts `requests`, at most room(), in one list (one doorbell); sets their wr_id and next. Only signalled requests
  /// have completions: signal at least one in depth(). @param tags one for each request; Retire returns them.
  /// @return kUnavailable: the queue pair accepts no request; those before the refused one were posted.
  Status Post(std::span<ibv_send_wr> requests, std::span<const uint64_t> tags);
  /// Request `id` has completed, and with it every earlier one: frees their room and calls on_tag(tag) for each, in
  /// order.
  template <typename OnTag>
  void Retire(uint64_t id, const OnTag& on_tag) {
    const uint64_t sequence = id & kSequenceMask;
    while (retired_ <= sequence && retired_ < posted_) on_tag(tags_[retired_++ % depth_]);
  }
  /// The `id` of Create of the queue pair that a send's work request id belongs to (receives: ReceivePool::kMark).
  static uint32_t IdOf(uint64_t id) { return static_cast<uint32_t>(id >> 48); }
  static constexpr uint64_t kSequenceMask = (uint64_t{1} << 48) - 1;

 private:
  QueuePair(Verbs* verbs, QpHandle qp, const Spec& spec, uint32_t id, uint32_t depth, uint32_t inline_bytes);
  Status ToInit(const VerbsSettings& settings);

  Verbs* const verbs_;
  const QpHandle qp_;
  const int access_;
  const uint8_t port_;
  const uint32_t id_, depth_, inline_bytes_, psn_;
  uint64_t posted_ = 0, retired_ = 0;
  std::vector<uint64_t> tags_;  // of posted requests, a ring
};

}  // namespace hp
