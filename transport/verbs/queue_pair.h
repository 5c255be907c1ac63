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

/// Where a queue pair is, as its peer must know it.
struct QpAddress {
  uint32_t number = 0;
  uint32_t psn = 0;  ///< of its first packet
};

/// The way from a port of ours to a port of a peer.
struct Path {
  uint8_t port = 1;        ///< of ours
  uint32_t gid_index = 0;  ///< of ours
  ibv_mtu mtu = IBV_MTU_1024;
  PortAddress peer;
};

/// One reliable-connected queue pair, and the account of its send queue. Its owner's lock guards it.
class QueuePair {
 public:
  struct Spec {
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr;  ///< null: it receives nothing
    int access = 0;          ///< what the peer may do, IBV_ACCESS_REMOTE_...
    uint8_t port = 1;
    void* context = nullptr;  ///< comes back with asynchronous events
  };
  /// Makes one with a random PSN, in the state RESET. @param id goes into its work request ids.
  static StatusOr<std::unique_ptr<QueuePair>> Create(Verbs* verbs, ibv_pd* pd, const Spec& spec,
                                                     const VerbsSettings& settings, uint32_t id);

  /// Ready to receive, then to send.
  Status Connect(const Path& path, const QpAddress& peer, const VerbsSettings& settings);
  /// The same with what librdmacm found out: route and PSNs. @param mtu the most that both ports take.
  Status Connect(rdma_cm_id* id, ibv_mtu mtu, const VerbsSettings& settings);
  /// Ends all it has under way, with completions in error.
  void Fail();

  QpAddress address() const { return {qp_->qp_num, psn_}; }
  uint32_t inline_bytes() const { return inline_bytes_; }
  /// Work requests that fit now.
  uint32_t room() const { return depth_ - static_cast<uint32_t>(posted_ - retired_); }
  bool idle() const { return posted_ == retired_; }
  uint32_t depth() const { return depth_; }
  /// The tag of the posted request `id`.
  uint64_t TagOf(uint64_t id) const { return tags_[(id & kSequenceMask) % depth_]; }

  /// Posts `requests` in one list. Each gets an id; `tags` (one for each) come back from Retire.
  Status Post(std::span<ibv_send_wr> requests, std::span<const uint64_t> tags);
  /// A completion told that the request `id`, and with it every earlier one, is done. Calls `on_tag(tag)` for each.
  template <typename OnTag>
  void Retire(uint64_t id, const OnTag& on_tag) {
    const uint64_t sequence = id & kSequenceMask;
    while (retired_ <= sequence && retired_ < posted_) on_tag(tags_[retired_++ % depth_]);
  }
  /// The queue pair that a work request id belongs to; of a send, as the top bit marks receives.
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
