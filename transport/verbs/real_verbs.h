#pragma once

#include "transport/verbs/verbs.h"

namespace hp {

/// The table of the functions of libibverbs and librdmacm themselves; RealVerbs() returns one. A test derives from it
/// to inject faults into a real device. Any thread, as libibverbs.
class LibibVerbs : public Verbs {
 public:
  ibv_device** GetDeviceList(int* count) override { return ibv_get_device_list(count); }
  void FreeDeviceList(ibv_device** list) override { ibv_free_device_list(list); }
  const char* GetDeviceName(ibv_device* device) override { return ibv_get_device_name(device); }
  ibv_context* OpenDevice(ibv_device* device) override { return ibv_open_device(device); }
  int CloseDevice(ibv_context* context) override { return ibv_close_device(context); }
  int QueryDevice(ibv_context* context, ibv_device_attr* attributes) override {
    return ibv_query_device(context, attributes);
  }
  int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) override {
    return ibv_query_port(context, port, attributes);
  }
  int QueryGid(ibv_context* context, uint8_t port, uint32_t index, ibv_gid_entry* entry) override {
    return ibv_query_gid_ex(context, port, index, entry, 0);
  }
  int GetAsyncEvent(ibv_context* context, ibv_async_event* event) override {
    return ibv_get_async_event(context, event);
  }
  void AckAsyncEvent(ibv_async_event* event) override { ibv_ack_async_event(event); }

  ibv_pd* AllocPd(ibv_context* context) override { return ibv_alloc_pd(context); }
  int DeallocPd(ibv_pd* pd) override { return ibv_dealloc_pd(pd); }
  ibv_mr* RegMr(ibv_pd* pd, void* address, size_t bytes, int access) override {
    return ibv_reg_mr(pd, address, bytes, access);
  }
  ibv_mr* RegDmabufMr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) override {
    return ibv_reg_dmabuf_mr(pd, offset, bytes, iova, fd, access);
  }
  int DeregMr(ibv_mr* mr) override { return ibv_dereg_mr(mr); }

  ibv_comp_channel* CreateCompChannel(ibv_context* context) override { return ibv_create_comp_channel(context); }
  int DestroyCompChannel(ibv_comp_channel* channel) override { return ibv_destroy_comp_channel(channel); }
  ibv_cq* CreateCq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel) override {
    return ibv_create_cq(context, entries, cq_context, channel, 0);
  }
  int DestroyCq(ibv_cq* cq) override { return ibv_destroy_cq(cq); }
  int ReqNotifyCq(ibv_cq* cq) override { return ibv_req_notify_cq(cq, 0); }
  int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) override {
    return ibv_get_cq_event(channel, cq, cq_context);
  }
  void AckCqEvents(ibv_cq* cq, unsigned count) override { ibv_ack_cq_events(cq, count); }
  int PollCq(ibv_cq* cq, int entries, ibv_wc* completions) override { return ibv_poll_cq(cq, entries, completions); }

  ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attributes) override { return ibv_create_srq(pd, attributes); }
  int DestroySrq(ibv_srq* srq) override { return ibv_destroy_srq(srq); }
  int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) override {
    return ibv_post_srq_recv(srq, list, bad);
  }
  ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) override { return ibv_create_qp(pd, attributes); }
  int ModifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) override { return ibv_modify_qp(qp, attributes, mask); }
  int DestroyQp(ibv_qp* qp) override { return ibv_destroy_qp(qp); }
  int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) override { return ibv_post_send(qp, list, bad); }

  rdma_event_channel* CmCreateEventChannel() override { return rdma_create_event_channel(); }
  int CmDestroyEventChannel(rdma_event_channel* channel) override {
    rdma_destroy_event_channel(channel);
    return 0;
  }
  int CmGetEvent(rdma_event_channel* channel, rdma_cm_event** event) override {
    return rdma_get_cm_event(channel, event);
  }
  int CmAckEvent(rdma_cm_event* event) override { return rdma_ack_cm_event(event); }
  rdma_cm_id* CmCreateId(rdma_event_channel* channel, void* id_context) override {
    rdma_cm_id* id = nullptr;
    return rdma_create_id(channel, &id, id_context, RDMA_PS_TCP) == 0 ? id : nullptr;
  }
  int CmDestroyId(rdma_cm_id* id) override { return rdma_destroy_id(id); }
  int CmBindAddr(rdma_cm_id* id, sockaddr* address) override { return rdma_bind_addr(id, address); }
  int CmListen(rdma_cm_id* id, int backlog) override { return rdma_listen(id, backlog); }
  uint16_t CmGetSrcPort(rdma_cm_id* id) override { return ntohs(rdma_get_src_port(id)); }
  int CmResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) override {
    return rdma_resolve_addr(id, source, destination, timeout_ms);
  }
  int CmResolveRoute(rdma_cm_id* id, int timeout_ms) override { return rdma_resolve_route(id, timeout_ms); }
  int CmInitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) override {
    return rdma_init_qp_attr(id, attributes, mask);
  }
  int CmConnect(rdma_cm_id* id, rdma_conn_param* parameters) override { return rdma_connect(id, parameters); }
  int CmAccept(rdma_cm_id* id, rdma_conn_param* parameters) override { return rdma_accept(id, parameters); }
  int CmEstablish(rdma_cm_id* id) override { return rdma_establish(id); }
  int CmReject(rdma_cm_id* id) override { return rdma_reject(id, nullptr, 0); }
};

}  // namespace hp
