#pragma once

#include "transport/verbs/verbs.h"
#include "transport/verbs/verbs_library.h"

#include <cerrno>

namespace hp {

/// The table of the functions of libibverbs and librdmacm themselves, which it loads; RealVerbs() returns one. A test
/// derives from it to inject faults into a real device. Any thread, as libibverbs. Where a library is missing, what
/// begins with it (GetDeviceList, CmCreateEventChannel) returns null with errno ELIBACC.
class LibibVerbs : public Verbs {
 public:
  /// @param ibverbs, rdmacm names of the libraries, for dlopen
  explicit LibibVerbs(const char* ibverbs = "libibverbs.so.1", const char* rdmacm = "librdmacm.so.1")
      : loaded_(IbverbsLibrary::Load(ibverbs)), cm_loaded_(RdmacmLibrary::Load(rdmacm)) {
    if (loaded_.ok()) ib_ = *loaded_;
    if (cm_loaded_.ok()) cm_ = *cm_loaded_;
  }
  Status Loaded() override { return loaded_.status(); }

  ibv_device** GetDeviceList(int* count) override {
    if (ib_.get_device_list == nullptr) return Missing<ibv_device*>();
    return ib_.get_device_list(count);
  }
  void FreeDeviceList(ibv_device** list) override { ib_.free_device_list(list); }
  const char* GetDeviceName(ibv_device* device) override { return ib_.get_device_name(device); }
  ibv_context* OpenDevice(ibv_device* device) override { return ib_.open_device(device); }
  int CloseDevice(ibv_context* context) override { return ib_.close_device(context); }
  int QueryDevice(ibv_context* context, ibv_device_attr* attributes) override {
    return ib_.query_device(context, attributes);
  }
  int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) override {
    // As the header does: the library's function knows fewer fields than a driver's may.
    if (const verbs_context* driver = verbs_get_ctx_op(context, query_port)) {
      return driver->query_port(context, port, attributes, sizeof(*attributes));
    }
    *attributes = {};
    return ib_.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
  }
  int QueryGid(ibv_context* context, uint8_t port, uint32_t index, ibv_gid_entry* entry) override {
    return ib_.query_gid_ex(context, port, index, entry, 0, sizeof(*entry));
  }
  int GetAsyncEvent(ibv_context* context, ibv_async_event* event) override {
    return ib_.get_async_event(context, event);
  }
  void AckAsyncEvent(ibv_async_event* event) override { ib_.ack_async_event(event); }

  ibv_pd* AllocPd(ibv_context* context) override { return ib_.alloc_pd(context); }
  int DeallocPd(ibv_pd* pd) override { return ib_.dealloc_pd(pd); }
  ibv_mr* RegMr(ibv_pd* pd, void* address, size_t bytes, int access) override {
    return ib_.reg_mr_iova2(pd, address, bytes, reinterpret_cast<uintptr_t>(address), access);
  }
  ibv_mr* RegDmabufMr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) override {
    if (ib_.reg_dmabuf_mr == nullptr) {
      errno = EOPNOTSUPP;
      return nullptr;
    }
    return ib_.reg_dmabuf_mr(pd, offset, bytes, iova, fd, access);
  }
  int DeregMr(ibv_mr* mr) override { return ib_.dereg_mr(mr); }

  ibv_comp_channel* CreateCompChannel(ibv_context* context) override { return ib_.create_comp_channel(context); }
  int DestroyCompChannel(ibv_comp_channel* channel) override { return ib_.destroy_comp_channel(channel); }
  ibv_cq* CreateCq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel) override {
    return ib_.create_cq(context, entries, cq_context, channel, 0);
  }
  int DestroyCq(ibv_cq* cq) override { return ib_.destroy_cq(cq); }
  int ReqNotifyCq(ibv_cq* cq) override { return ibv_req_notify_cq(cq, 0); }
  int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) override {
    return ib_.get_cq_event(channel, cq, cq_context);
  }
  void AckCqEvents(ibv_cq* cq, unsigned count) override { ib_.ack_cq_events(cq, count); }
  int PollCq(ibv_cq* cq, int entries, ibv_wc* completions) override { return ibv_poll_cq(cq, entries, completions); }

  ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attributes) override { return ib_.create_srq(pd, attributes); }
  int DestroySrq(ibv_srq* srq) override { return ib_.destroy_srq(srq); }
  int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) override {
    return ibv_post_srq_recv(srq, list, bad);
  }
  ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) override { return ib_.create_qp(pd, attributes); }
  int ModifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) override { return ib_.modify_qp(qp, attributes, mask); }
  int DestroyQp(ibv_qp* qp) override { return ib_.destroy_qp(qp); }
  int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) override { return ibv_post_send(qp, list, bad); }

  rdma_event_channel* CmCreateEventChannel() override {
    if (cm_.create_event_channel == nullptr) return Missing<rdma_event_channel>();
    return cm_.create_event_channel();
  }
  int CmDestroyEventChannel(rdma_event_channel* channel) override {
    cm_.destroy_event_channel(channel);
    return 0;
  }
  int CmGetEvent(rdma_event_channel* channel, rdma_cm_event** event) override {
    return cm_.get_cm_event(channel, event);
  }
  int CmAckEvent(rdma_cm_event* event) override { return cm_.ack_cm_event(event); }
  rdma_cm_id* CmCreateId(rdma_event_channel* channel, void* id_context) override {
    rdma_cm_id* id = nullptr;
    return cm_.create_id(channel, &id, id_context, RDMA_PS_TCP) == 0 ? id : nullptr;
  }
  int CmDestroyId(rdma_cm_id* id) override { return cm_.destroy_id(id); }
  int CmBindAddr(rdma_cm_id* id, sockaddr* address) override { return cm_.bind_addr(id, address); }
  int CmListen(rdma_cm_id* id, int backlog) override { return cm_.listen(id, backlog); }
  uint16_t CmGetSrcPort(rdma_cm_id* id) override { return ntohs(cm_.get_src_port(id)); }
  int CmResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) override {
    return cm_.resolve_addr(id, source, destination, timeout_ms);
  }
  int CmResolveRoute(rdma_cm_id* id, int timeout_ms) override { return cm_.resolve_route(id, timeout_ms); }
  int CmInitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) override {
    return cm_.init_qp_attr(id, attributes, mask);
  }
  int CmConnect(rdma_cm_id* id, rdma_conn_param* parameters) override { return cm_.connect(id, parameters); }
  int CmAccept(rdma_cm_id* id, rdma_conn_param* parameters) override { return cm_.accept(id, parameters); }
  int CmEstablish(rdma_cm_id* id) override { return cm_.establish(id); }
  int CmReject(rdma_cm_id* id) override { return cm_.reject(id, nullptr, 0); }

 private:
  template <typename Object>
  static Object* Missing() {
    errno = ELIBACC;
    return nullptr;
  }

  StatusOr<IbverbsLibrary> loaded_;
  StatusOr<RdmacmLibrary> cm_loaded_;
  IbverbsLibrary ib_;  // null pointers: not loaded
  RdmacmLibrary cm_;
};

}  // namespace hp
