#include "transport/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

namespace hp {
namespace {

constexpr uint32_t kPsnMask = 0xffffff;
constexpr uint8_t kMinRnrTimer = 12;  // 0.64 ms
// Attributes that rdma_init_qp_attr names on Ethernet and that are the kernel's own (MAC addresses, VLAN):
// ibv_modify_qp does not take them. librdmacm leaves them out likewise when the queue pair is its own.
constexpr int kKernelMask = 7 << 21;

uint32_t RandomPsn() {
  std::random_device random;
  return random() & kPsnMask;
}

ibv_qp_init_attr InitAttributes(const QueuePair::Spec& spec, uint32_t depth, uint32_t inline_bytes) {
  ibv_qp_init_attr attributes = {};
  attributes.qp_context = spec.context;
  attributes.send_cq = attributes.recv_cq = spec.cq;
  attributes.srq = spec.srq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 0;
  attributes.cap.max_send_wr = depth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = inline_bytes;
  return attributes;
}

ibv_ah_attr AddressVector(const Path& path, const VerbsSettings& settings) {
  ibv_ah_attr address = {};
  address.port_num = path.port;
  address.sl = static_cast<uint8_t>(settings.service_level);
  address.dlid = path.peer.lid;
  // RoCE routes by GID alone; InfiniBand by LID, beyond one subnet by GID.
  address.is_global = path.peer.ethernet || path.peer.lid == 0;
  std::memcpy(address.grh.dgid.raw, path.peer.gid.data(), path.peer.gid.size());
  address.grh.sgid_index = static_cast<uint8_t>(path.gid_index);
  address.grh.hop_limit = 255;
  address.grh.traffic_class = static_cast<uint8_t>(settings.traffic_class);
  return address;
}

}  // namespace

QueuePair::QueuePair(Verbs* verbs, QpHandle qp, const Spec& spec, uint32_t id, uint32_t depth, uint32_t inline_bytes)
    : verbs_(verbs),
      qp_(std::move(qp)),
      access_(spec.access),
      port_(spec.port),
      id_(id),
      depth_(depth),
      inline_bytes_(inline_bytes),
      psn_(RandomPsn()),
      tags_(depth) {}

StatusOr<std::unique_ptr<QueuePair>> QueuePair::Create(Verbs* verbs, ibv_pd* pd, const Spec& spec,
                                                       const VerbsSettings& settings, uint32_t id) {
  const uint32_t depth = settings.send_depth;
  for (uint32_t inline_bytes = settings.inline_bytes;; inline_bytes /= 2) {
    ibv_qp_init_attr attributes = InitAttributes(spec, depth, inline_bytes);
    QpHandle qp(verbs->CreateQp(pd, &attributes), {verbs});
    if (!qp && inline_bytes > 0) continue;  // devices differ in what they take
    if (!qp) return FailedPrecondition("no queue pair: %s", std::strerror(errno));
    return std::unique_ptr<QueuePair>(new QueuePair(verbs, std::move(qp), spec, id, depth, inline_bytes));
  }
}

Status QueuePair::ToInit(const VerbsSettings& settings) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = static_cast<uint16_t>(settings.pkey_index);
  attributes.port_num = port_;
  attributes.qp_access_flags = static_cast<unsigned>(access_);
  const int error =
      verbs_->ModifyQp(qp_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return OkStatus();
  return FailedPrecondition("a queue pair can't become INIT (port %d, pkey_index %d): %s", port_, settings.pkey_index,
                            std::strerror(error));
}

Status QueuePair::Connect(const Path& path, const QpAddress& peer, const VerbsSettings& settings) {
  HP_RETURN_IF_ERROR(ToInit(settings));
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = path.mtu;
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kMinRnrTimer;
  attributes.ah_attr = AddressVector(path, settings);
  int error = verbs_->ModifyQp(qp_.get(), &attributes,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) {
    return FailedPrecondition("qp %#x can't become RTR towards GID %s, LID %d, qp %#x: %s", qp_->qp_num,
                              GidText(path.peer.gid).c_str(), path.peer.lid, peer.number, std::strerror(error));
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = static_cast<uint8_t>(settings.timeout);
  attributes.retry_cnt = static_cast<uint8_t>(settings.retry_count);
  attributes.rnr_retry = static_cast<uint8_t>(settings.rnr_retry);
  attributes.sq_psn = psn_;
  attributes.max_rd_atomic = 1;
  error = verbs_->ModifyQp(
      qp_.get(), &attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error == 0) return OkStatus();
  return FailedPrecondition("qp %#x can't become RTS: %s", qp_->qp_num, std::strerror(error));
}

Status QueuePair::Connect(rdma_cm_id* id, ibv_mtu mtu, const VerbsSettings& settings) {
  // librdmacm fills in everything; what is ours to say is put over it.
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    const char* const name = state == IBV_QPS_INIT ? "INIT" : state == IBV_QPS_RTR ? "RTR" : "RTS";
    ibv_qp_attr attributes = {};
    attributes.qp_state = state;
    int mask = 0;
    if (verbs_->CmInitQpAttr(id, &attributes, &mask) != 0) {
      return FailedPrecondition("librdmacm has no attributes for a queue pair's %s: %s", name, std::strerror(errno));
    }
    if (state == IBV_QPS_INIT) attributes.qp_access_flags = static_cast<unsigned>(access_);
    if (state == IBV_QPS_RTR) {
      attributes.path_mtu = std::min(attributes.path_mtu, mtu);
      attributes.min_rnr_timer = kMinRnrTimer;
      if (settings.traffic_class != 0) {
        attributes.ah_attr.grh.traffic_class = static_cast<uint8_t>(settings.traffic_class);
      }
      if (settings.service_level != 0) attributes.ah_attr.sl = static_cast<uint8_t>(settings.service_level);
    }
    if (state == IBV_QPS_RTS) {
      attributes.timeout = static_cast<uint8_t>(settings.timeout);
      attributes.retry_cnt = static_cast<uint8_t>(settings.retry_count);
      attributes.rnr_retry = static_cast<uint8_t>(settings.rnr_retry);
    }
    const int error = verbs_->ModifyQp(qp_.get(), &attributes, mask & ~kKernelMask);
    if (error != 0) return FailedPrecondition("qp %#x can't become %s: %s", qp_->qp_num, name, std::strerror(error));
  }
  return OkStatus();
}

void QueuePair::Fail() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  const int error = verbs_->ModifyQp(qp_.get(), &attributes, IBV_QP_STATE);
  LOG_IF(WARNING, error != 0) << "qp " << qp_->qp_num << " can't become ERR: " << std::strerror(error);
}

Status QueuePair::Post(std::span<ibv_send_wr> requests, std::span<const uint64_t> tags) {
  CHECK(requests.size() <= room() && requests.size() == tags.size());
  uint64_t sequence = posted_;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].wr_id = static_cast<uint64_t>(id_) << 48 | sequence;
    requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
    tags_[sequence++ % depth_] = tags[i];
  }
  ibv_send_wr* bad = nullptr;
  const int error = verbs_->PostSend(qp_.get(), requests.data(), &bad);
  if (error == 0) {
    posted_ = sequence;
    return OkStatus();
  }
  // What stands before the bad one was taken.
  if (bad != nullptr) posted_ = bad->wr_id & kSequenceMask;
  return Unavailable("qp %#x accepts no work request: %s", qp_->qp_num, std::strerror(error));
}

}  // namespace hp
