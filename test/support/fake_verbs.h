#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/verbs/port.h"
#include "transport/verbs/verbs.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp {

// Stands in for RDMA adapters and the wire between them: reliable connections whose requests arrive in order, each
// queue pair for itself. It checks what real adapters check (states, keys, bounds, protection domains, what may be
// destroyed when) and what only a test can: the order of calls and that nothing is left over.

class FakeVerbs;
struct FakeCmId;
struct FakeCq;
struct FakeSrq;
struct FakeQp;

struct FakeContext : ibv_context {
  FakeVerbs* host = nullptr;
  std::deque<ibv_async_event> events;
};
struct FakePd : ibv_pd {
  int users = 0;
};
struct FakeMr : ibv_mr {
  int access = 0;
  int dma_buf = -1;     // its descriptor; -1: plain memory
  uint64_t offset = 0;  // in it
};
struct FakeChannel : ibv_comp_channel {
  std::deque<FakeCq*> events;
  int users = 0;
};
struct FakeCq : ibv_cq {
  std::deque<ibv_wc> entries;
  bool armed = false;
  int unacked = 0, users = 0;
};
struct FakeSrq : ibv_srq {
  struct Receive {
    uint64_t id;
    std::optional<ibv_sge> range;
  };
  std::deque<Receive> receives;
  uint32_t most = 0;
  int users = 0;
};
struct FakeRequest {
  ibv_send_wr wr = {};
  std::vector<ibv_sge> ranges;
  std::vector<std::byte> inlined;
  bool is_inlined = false;
};
struct FakeQp : ibv_qp {
  FakeVerbs* host = nullptr;
  int access = 0;
  ibv_qp_attr attributes = {};  // as modified
  ibv_qp_cap cap = {};
  std::deque<FakeRequest> requests;  // posted, not yet arrived
  uint32_t outstanding = 0;          // posted, completion not yet polled
};

struct FakeCmEvent : rdma_cm_event {
  std::vector<std::byte> data;
  FakeCmId* counted = nullptr;  // whose destruction waits until this is acknowledged
};
struct FakeCmChannel : rdma_event_channel {
  std::deque<std::unique_ptr<FakeCmEvent>> events;
  int users = 0;
};
struct FakeCmId : rdma_cm_id {
  enum State { kNew, kBound, kListens, kHasAddress, kHasRoute, kRequested, kAsked, kAccepted, kAnswered, kUp, kOver };
  State state = kNew;
  FakeVerbs* host = nullptr;
  Gid address = {}, destination = {};
  uint16_t port = 0, destination_port = 0;
  FakeCmId* other = nullptr;  // of the other end
  FakeCmId* asked = nullptr;  // the listener that a request came to
  uint32_t qp_number = 0, psn = 0;
  int unacked = 0;
};
/// What happens to an event of the connection manager that is about to be told.
enum class CmFault { kNone, kDrop, kHold };

/// What happens to a request that is about to arrive.
struct WireFault {
  enum Kind {
    kNone,
    kFail,            ///< it completes with `status`, and its queue pair is in error
    kDropCompletion,  ///< it arrives, and its sender is never told
    kHold,            ///< it stays on its way, and this is asked again when anything moves (Release)
  } kind = kNone;
  ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
};

/// The wire between the adapters of all hosts of a test. Outlives them.
class FakeFabric {
 public:
  struct Options {
    /// Requests arrive from a thread, queue pair after queue pair in random order; else within PostSend.
    bool delayed = false;
    uint32_t seed = 1;
  };
  FakeFabric() : FakeFabric(Options{}) {}
  explicit FakeFabric(const Options& options);
  ~FakeFabric();

  /// While held, nothing arrives.
  void Hold() HP_EXCLUDES(mutex_);
  void Release() HP_EXCLUDES(mutex_);
  /// Asked about every request that is about to arrive; under the fabric's lock. Set before any traffic.
  std::function<WireFault(const FakeQp& from, const ibv_send_wr& request)> on_request;
  /// Asked about every event of the connection manager, which it may change; under the fabric's lock. Set before any.
  std::function<CmFault(const FakeCmId& to, FakeCmEvent* event)> on_cm_event;
  size_t held_cm_events() HP_EXCLUDES(mutex_);
  /// Tells what was held.
  void ReleaseCmEvents() HP_EXCLUDES(mutex_);
  /// Where somebody listens.
  std::vector<uint16_t> cm_ports() HP_EXCLUDES(mutex_);
  /// Tells the host of a connected queue pair of an event.
  void RaiseCmEvent(uint32_t qp_number, rdma_cm_event_type type) HP_EXCLUDES(mutex_);
  /// Whether an adapter would let somebody write there, as `rkey` says, now.
  bool CouldWrite(uint32_t rkey, uint64_t address, size_t bytes) HP_EXCLUDES(mutex_);
  /// Puts a queue pair into the error state, as an adapter does.
  void Break(uint32_t qp_number) HP_EXCLUDES(mutex_);
  /// Raises an event of a queue pair, which stays as it is.
  void Raise(uint32_t qp_number, ibv_event_type event) HP_EXCLUDES(mutex_);
  /// The oldest request of a queue pair ends with `status`; nothing else happens.
  void EndRequest(uint32_t qp_number, ibv_wc_status status) HP_EXCLUDES(mutex_);
  /// Whether the owner of a queue pair has taken all its completions and its device's events.
  bool Heard(uint32_t qp_number) HP_EXCLUDES(mutex_);
  /// What no program may do and ours did; empty is right.
  std::vector<std::string> faults() HP_EXCLUDES(mutex_);

  struct Counts {
    int posts = 0;     ///< calls of PostSend: doorbells
    int requests = 0;  ///< in them
    int completions = 0;
    int receive_posts = 0;
    int overruns = 0;  ///< completions lost because their queue was full
  };
  Counts counts() HP_EXCLUDES(mutex_);
  void ResetCounts() HP_EXCLUDES(mutex_);

 private:
  friend class FakeVerbs;
  void Wire();
  void ArriveAll() HP_REQUIRES(mutex_);
  bool ArriveOne(FakeQp* qp) HP_REQUIRES(mutex_);
  bool Arrive(FakeQp* qp, const FakeRequest& request) HP_REQUIRES(mutex_);
  ibv_wc_status Gather(const FakeQp& qp, const FakeRequest& request, std::vector<std::byte>* bytes) HP_REQUIRES(mutex_);
  FakeMr* MrOf(const ibv_pd* pd, uint32_t key, uint64_t address, size_t bytes) HP_REQUIRES(mutex_);
  FakeQp* PeerOf(const FakeQp& qp) HP_REQUIRES(mutex_);
  void Complete(FakeQp* qp, const FakeRequest& request, ibv_wc_status status) HP_REQUIRES(mutex_);
  void RaiseEvent(FakeQp* qp, ibv_event_type event) HP_REQUIRES(mutex_);
  void ToError(FakeQp* qp, ibv_event_type event) HP_REQUIRES(mutex_);
  void Push(FakeCq* cq, const ibv_wc& completion) HP_REQUIRES(mutex_);
  void TellCm(FakeCmId* to, rdma_cm_event_type type, int status, const rdma_conn_param* parameters) HP_REQUIRES(mutex_);
  void QueueCm(std::unique_ptr<FakeCmEvent> event) HP_REQUIRES(mutex_);
  FakeCmId* NewCmId(FakeVerbs* host, rdma_event_channel* channel) HP_REQUIRES(mutex_);
  void ForgetCmId(FakeCmId* id) HP_REQUIRES(mutex_);
  /// The other end hears that `id` is no more.
  void EndCm(FakeCmId* id) HP_REQUIRES(mutex_);
  void Fault(const std::string& what) HP_REQUIRES(mutex_) { faults_.push_back(what); }

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool held_ HP_GUARDED_BY(mutex_) = false;
  bool stopping_ HP_GUARDED_BY(mutex_) = false;
  uint32_t next_number_ HP_GUARDED_BY(mutex_) = 0x11;
  std::map<uint32_t, FakeQp*> qps_ HP_GUARDED_BY(mutex_);
  std::map<uint32_t, FakeMr*> mrs_ HP_GUARDED_BY(mutex_);  // by key
  std::set<FakeCmId*> cm_ids_ HP_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<FakeCmEvent>> held_cm_events_ HP_GUARDED_BY(mutex_);
  uint16_t next_port_ HP_GUARDED_BY(mutex_) = 20'000;
  std::vector<std::string> faults_ HP_GUARDED_BY(mutex_);
  Counts counts_ HP_GUARDED_BY(mutex_);
  std::mt19937 random_ HP_GUARDED_BY(mutex_);
  Thread wire_;
};

/// The verbs of one host.
class FakeVerbs : public Verbs {
 public:
  struct Device {
    std::string name = "fake0";
    ibv_port_state state = IBV_PORT_ACTIVE;
    ibv_mtu mtu = IBV_MTU_4096;
    uint32_t max_message = 1 << 30;
    bool ethernet = true;
    uint16_t lid = 0;
    std::vector<GidEntry> gids;
    Gid ip = {};  ///< of its network interface, on InfiniBand, where no GID is one
    int max_cqe = 1 << 20;
    uint32_t max_inline = 220;
    bool takes_dma_buf = true;
  };
  /// A device with the GIDs of a RoCE port: link-local and 127.0.0.1, v1 and v2.
  static Device Roce();

  explicit FakeVerbs(FakeFabric* fabric, std::vector<Device> devices = {Roce()});
  ~FakeVerbs() override;

  /// The n-th call (from 0) that brings something up fails. -1: none.
  void FailCall(int n) { fail_call_ = n; }
  /// Calls that bring something up so far; their names.
  std::vector<std::string> calls() HP_EXCLUDES(fabric_->mutex_);
  /// Objects that were made and not destroyed.
  int live() HP_EXCLUDES(fabric_->mutex_);
  std::vector<FakeMr> registrations() HP_EXCLUDES(fabric_->mutex_);       // all that were made
  std::vector<ibv_qp_attr> modifications() HP_EXCLUDES(fabric_->mutex_);  // likewise
  std::vector<uint32_t> qp_numbers() HP_EXCLUDES(fabric_->mutex_);        // alive, in the order of creation
  void SetGids(const std::vector<GidEntry>& gids) HP_EXCLUDES(fabric_->mutex_);

  ibv_device** GetDeviceList(int* count) override;
  void FreeDeviceList(ibv_device** list) override;
  const char* GetDeviceName(ibv_device* device) override { return device->name; }
  ibv_context* OpenDevice(ibv_device* device) override;
  int CloseDevice(ibv_context* context) override;
  int QueryDevice(ibv_context* context, ibv_device_attr* attributes) override;
  int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) override;
  int QueryGid(ibv_context* context, uint8_t port, uint32_t index, ibv_gid_entry* entry) override;
  int GetAsyncEvent(ibv_context* context, ibv_async_event* event) override;
  void AckAsyncEvent(ibv_async_event*) override {}
  ibv_pd* AllocPd(ibv_context* context) override;
  int DeallocPd(ibv_pd* pd) override;
  ibv_mr* RegMr(ibv_pd* pd, void* address, size_t bytes, int access) override;
  ibv_mr* RegDmabufMr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) override;
  int DeregMr(ibv_mr* mr) override;
  ibv_comp_channel* CreateCompChannel(ibv_context* context) override;
  int DestroyCompChannel(ibv_comp_channel* channel) override;
  ibv_cq* CreateCq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel) override;
  int DestroyCq(ibv_cq* cq) override;
  int ReqNotifyCq(ibv_cq* cq) override;
  int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) override;
  void AckCqEvents(ibv_cq* cq, unsigned count) override;
  int PollCq(ibv_cq* cq, int entries, ibv_wc* completions) override;
  ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attributes) override;
  int DestroySrq(ibv_srq* srq) override;
  int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) override;
  ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) override;
  int ModifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) override;
  int DestroyQp(ibv_qp* qp) override;
  int PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) override;
  rdma_event_channel* CmCreateEventChannel() override;
  int CmDestroyEventChannel(rdma_event_channel* channel) override;
  int CmGetEvent(rdma_event_channel* channel, rdma_cm_event** event) override;
  int CmAckEvent(rdma_cm_event* event) override;
  rdma_cm_id* CmCreateId(rdma_event_channel* channel, void* id_context) override;
  int CmDestroyId(rdma_cm_id* id) override;
  int CmBindAddr(rdma_cm_id* id, sockaddr* address) override;
  int CmListen(rdma_cm_id* id, int backlog) override;
  uint16_t CmGetSrcPort(rdma_cm_id* id) override;
  int CmResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) override;
  int CmResolveRoute(rdma_cm_id* id, int timeout_ms) override;
  int CmInitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) override;
  int CmConnect(rdma_cm_id* id, rdma_conn_param* parameters) override;
  int CmAccept(rdma_cm_id* id, rdma_conn_param* parameters) override;
  int CmEstablish(rdma_cm_id* id) override;
  int CmReject(rdma_cm_id* id) override;

 private:
  friend class FakeFabric;
  /// @return whether this call is to fail; errno is set then.
  bool Fails(const char* call) HP_REQUIRES(fabric_->mutex_);
  Device& DeviceOf(ibv_context* context);
  ibv_mr* Register(ibv_pd* pd, uint64_t address, size_t bytes, int access, int dma_buf, uint64_t offset)
      HP_REQUIRES(fabric_->mutex_);
  /// 0, EBUSY with a fault noted, when `users` still use it.
  int Destroy(const char* what, int users) HP_REQUIRES(fabric_->mutex_);
  /// Gives `id` an address and the first device that has it. @return whether there is one; errno is set if not.
  bool GiveAddress(FakeCmId* id, const sockaddr* address) HP_REQUIRES(fabric_->mutex_);
  int CheckModify(FakeQp* qp, const ibv_qp_attr& attributes, int mask) HP_REQUIRES(fabric_->mutex_);

  FakeFabric* const fabric_;
  std::vector<Device> devices_;
  std::vector<std::unique_ptr<ibv_device>> device_objects_;
  std::vector<std::unique_ptr<ibv_context>> cm_contexts_;  // the connection manager opens devices for itself
  std::atomic<int> fail_call_ = -1;
  std::vector<std::string> calls_;
  int live_ = 0;
  std::vector<FakeMr> registrations_;
  std::vector<ibv_qp_attr> modifications_;
};

}  // namespace hp
