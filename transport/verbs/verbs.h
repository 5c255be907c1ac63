#pragma once

#include "hp/status.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

namespace hp {

/// Every function of libibverbs and librdmacm that we call, as one table, so that a test can replace a device: fail a
/// step, drop a completion, check the order of calls. Arguments and results are those of the function of the same name
/// (ibv_reg_mr is RegMr, rdma_bind_addr is CmBindAddr), and the manual pages of those are the contract. On failure
/// pointers are null with errno set; ints are an errno (0: ok), those of librdmacm -1 with errno set. Differences are
/// noted. Any thread.
class Verbs {
 public:
  virtual ~Verbs() = default;

  /// Whether libibverbs is there; where it is not, there is no device. @return kFailedPrecondition: why not
  virtual Status Loaded() { return OkStatus(); }
  virtual ibv_device** GetDeviceList(int* count) = 0;
  virtual void FreeDeviceList(ibv_device** list) = 0;
  virtual const char* GetDeviceName(ibv_device* device) = 0;
  virtual ibv_context* OpenDevice(ibv_device* device) = 0;
  virtual int CloseDevice(ibv_context* context) = 0;
  virtual int QueryDevice(ibv_context* context, ibv_device_attr* attributes) = 0;
  virtual int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) = 0;
  virtual int QueryGid(ibv_context* context, uint8_t port, uint32_t index, ibv_gid_entry* entry) = 0;  // _ex
  virtual int GetAsyncEvent(ibv_context* context, ibv_async_event* event) = 0;  // -1: none (the descriptor is polled)
  virtual void AckAsyncEvent(ibv_async_event* event) = 0;

  virtual ibv_pd* AllocPd(ibv_context* context) = 0;
  virtual int DeallocPd(ibv_pd* pd) = 0;
  virtual ibv_mr* RegMr(ibv_pd* pd, void* address, size_t bytes, int access) = 0;
  virtual ibv_mr* RegDmabufMr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) = 0;
  virtual int DeregMr(ibv_mr* mr) = 0;

  virtual ibv_comp_channel* CreateCompChannel(ibv_context* context) = 0;
  virtual int DestroyCompChannel(ibv_comp_channel* channel) = 0;
  virtual ibv_cq* CreateCq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel) = 0;
  virtual int DestroyCq(ibv_cq* cq) = 0;
  virtual int ReqNotifyCq(ibv_cq* cq) = 0;  // for all completions, not only solicited ones
  virtual int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) = 0;  // -1: none
  virtual void AckCqEvents(ibv_cq* cq, unsigned count) = 0;
  virtual int PollCq(ibv_cq* cq, int entries, ibv_wc* completions) = 0;  // their number, or < 0

  virtual ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attributes) = 0;
  virtual int DestroySrq(ibv_srq* srq) = 0;
  virtual int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) = 0;
  virtual ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) = 0;
  virtual int ModifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) = 0;
  virtual int DestroyQp(ibv_qp* qp) = 0;
  virtual int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) = 0;

  virtual rdma_event_channel* CmCreateEventChannel() = 0;
  virtual int CmDestroyEventChannel(rdma_event_channel* channel) = 0;              // always 0
  virtual int CmGetEvent(rdma_event_channel* channel, rdma_cm_event** event) = 0;  // -1: none
  virtual int CmAckEvent(rdma_cm_event* event) = 0;
  virtual rdma_cm_id* CmCreateId(rdma_event_channel* channel, void* id_context) = 0;  // of RDMA_PS_TCP
  virtual int CmDestroyId(rdma_cm_id* id) = 0;  // waits until all its events are acknowledged
  virtual int CmBindAddr(rdma_cm_id* id, sockaddr* address) = 0;
  virtual int CmListen(rdma_cm_id* id, int backlog) = 0;
  virtual uint16_t CmGetSrcPort(rdma_cm_id* id) = 0;  // in the host's order
  virtual int CmResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) = 0;
  virtual int CmResolveRoute(rdma_cm_id* id, int timeout_ms) = 0;
  virtual int CmInitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) = 0;
  virtual int CmConnect(rdma_cm_id* id, rdma_conn_param* parameters) = 0;
  virtual int CmAccept(rdma_cm_id* id, rdma_conn_param* parameters) = 0;
  virtual int CmEstablish(rdma_cm_id* id) = 0;
  virtual int CmReject(rdma_cm_id* id) = 0;
};

/// The real libraries. Lives as long as the process.
Verbs* RealVerbs();

}  // namespace hp
