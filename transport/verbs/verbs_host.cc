// The RDMA device of a transport and its events.
#include "transport/verbs/device.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/flush.h"
#include "transport/verbs/link.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/verbs_transport.h"
#include "transport/verbs/wc_text.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <glog/logging.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace hp {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;

class DeviceHost : public VerbsHost {
 public:
  DeviceHost(std::shared_ptr<VerbsDevice> device, std::string sys_root)
      : device_(std::move(device)), memory_(std::make_shared<VerbsMemory>(device_, std::move(sys_root))) {}

  std::string Describe() const override {
    return Label() + (device_->settings().setup == QpSetup::kRdmaCm ? ", queue pairs by librdmacm" : "");
  }
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override {
    return memory_->Register(memory);
  }
  StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) override {
    return memory_->Register(memory);
  }
  void Start(const VerbsContext& context) override;
  StatusOr<std::shared_ptr<VerbsLink>> NewLink(Rank peer, const std::string& name, uint32_t epoch) override;
  void Stop() override;

 private:
  std::string Label() const { return Format("%s:%d", device_->name().c_str(), device_->port()); }
  void WaitForCompletions();
  void WaitForAsyncEvents();
  void OnAsyncEvent(const ibv_async_event& event);

  const std::shared_ptr<VerbsDevice> device_;
  const std::shared_ptr<VerbsMemory> memory_;
  VerbsContext context_;
  std::shared_ptr<VerbsFlush> flush_;
  std::optional<Descriptor> channel_, async_;
  std::vector<std::weak_ptr<VerbsEndpoint>> endpoints_;
};

void DeviceHost::Start(const VerbsContext& context) {
  context_ = context;
  flush_ = std::make_shared<VerbsFlush>(device_, context.progress);
  channel_.emplace(*context.progress->io(), device_->channel()->fd);
  async_.emplace(*context.progress->io(), device_->context()->async_fd);
  WaitForCompletions();
  WaitForAsyncEvents();
}

void DeviceHost::Stop() {
  if (flush_) flush_->Stop();
  // The descriptors are the device's: it closes them.
  for (std::optional<Descriptor>* descriptor : {&channel_, &async_}) {
    if (*descriptor) (*descriptor)->release();
    descriptor->reset();
  }
}

StatusOr<std::shared_ptr<VerbsLink>> DeviceHost::NewLink(Rank peer, const std::string& name, uint32_t epoch) {
  HP_ASSIGN_OR_RETURN(auto endpoint, VerbsEndpoint::Create(peer, name, epoch, {context_, device_, memory_, flush_}));
  std::erase_if(endpoints_, [](const auto& known) { return known.expired(); });
  endpoints_.push_back(endpoint);
  return std::shared_ptr<VerbsLink>(std::move(endpoint));
}

void DeviceHost::WaitForCompletions() {
  channel_->async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error) return;
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    while (device_->verbs()->GetCqEvent(device_->channel(), &cq, &user) == 0) {
      device_->verbs()->AckCqEvents(cq, 1);
      context_.progress->Watch(static_cast<CqUser*>(user)->shared_from_this());
    }
    WaitForCompletions();
  });
}

void DeviceHost::WaitForAsyncEvents() {
  async_->async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error) return;
    ibv_async_event event;
    while (device_->verbs()->GetAsyncEvent(device_->context(), &event) == 0) {
      const ibv_async_event copy = event;
      device_->verbs()->AckAsyncEvent(&event);  // ahead of what it leads to: destroying waits for it
      OnAsyncEvent(copy);
    }
    WaitForAsyncEvents();
  });
}

void DeviceHost::OnAsyncEvent(const ibv_async_event& event) {
  const char* const what = AsyncEventText(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return static_cast<CqUser*>(event.element.qp->qp_context)
          ->shared_from_this()
          ->OnAsyncError(Format("qp %#x: %s", event.element.qp->qp_num, what),
                         event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED ? Cause::kSymptom : Cause::kHint);
    case IBV_EVENT_CQ_ERR:
      return static_cast<CqUser*>(event.element.cq->cq_context)->shared_from_this()->OnAsyncError(what, Cause::kHint);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
      for (const auto& known : std::vector(endpoints_)) {
        if (const auto endpoint = known.lock()) endpoint->OnAsyncError(Label() + ": " + what, Cause::kHint);
      }
      return;
    default:
      LOG(INFO) << Label() << ": " << what;
  }
}

}  // namespace

StatusOr<std::unique_ptr<VerbsHost>> OpenVerbsHost(const VerbsOptions& options) {
  const std::string& address = options.address.empty() ? options.connect.bind_host : options.address;
  Verbs* const verbs = options.verbs != nullptr ? options.verbs : RealVerbs();
  HP_RETURN_IF_ERROR(verbs->Loaded());
  HP_ASSIGN_OR_RETURN(auto device, VerbsDevice::Open(verbs, options.settings, address));
  return std::unique_ptr<VerbsHost>(std::make_unique<DeviceHost>(std::move(device), options.sys_root));
}

}  // namespace hp
