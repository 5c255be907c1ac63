// What follows from the events of librdmacm: the steps of each queue pair, requests of the peer, and how it ends.
#include "transport/verbs/cm_connector.h"
#include "transport/verbs/wc_text.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {

void CmConnector::WaitForEvents() {
  descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [weak = weak_from_this()](const boost::system::error_code& error) {
                            const auto self = weak.lock();
                            if (self && !error) self->TakeEvents();
                          });
}

void CmConnector::TakeEvents() {
  const auto self = shared_from_this();
  rdma_cm_event* event = nullptr;
  while (channel_ && verbs_->CmGetEvent(channel_.get(), &event) == 0) {
    Event copy{.id = event->id, .type = event->event, .status = event->status, .private_data = {}};
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST || event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
      copy.qp_number = event->param.conn.qp_num;
      const auto* bytes = static_cast<const std::byte*>(event->param.conn.private_data);
      copy.private_data.assign(bytes, bytes + event->param.conn.private_data_len);
    }
    verbs_->CmAckEvent(event);  // ahead of what it leads to: destroying an identifier waits for it
    OnEvent(std::move(copy));
  }
  if (channel_) WaitForEvents();
}

void CmConnector::OnEvent(Event event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return OnRequest(std::move(event));
  if (failed_) return;
  if (event.id == listener_.get()) {
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) Fail(Unavailable("librdmacm: the device was removed"));
    return;
  }
  const auto pending = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const PendingQueuePair& known) { return known.id.get() == event.id; });
  if (pending == pending_.end() || event.type == RDMA_CM_EVENT_TIMEWAIT_EXIT) return;
  const Status status = Step(&*pending, event);
  if (!status.ok()) Fail(status);
}

rdma_conn_param CmConnector::Parameters(const PendingQueuePair& pending, std::byte* private_data) const {
  EncodeCmHello({static_cast<uint16_t>(IndexOf(&pending)), options_.epoch, theirs_.cm_nonce}, private_data);
  rdma_conn_param parameters = {};
  parameters.private_data = private_data;
  parameters.private_data_len = kCmHelloBytes;
  parameters.responder_resources = parameters.initiator_depth = 1;
  parameters.retry_count = static_cast<uint8_t>(device_->settings().retry_count);
  parameters.rnr_retry_count = static_cast<uint8_t>(device_->settings().rnr_retry);
  parameters.srq = 1;
  parameters.qp_num = pending.qp->address().number;
  return parameters;
}

Status CmConnector::Step(PendingQueuePair* pending, const Event& event) {
  const size_t index = IndexOf(pending);
  const auto failed = [&](const char* step) {
    return FailedPrecondition("librdmacm, queue pair %zu: %s: %s", index, step, std::strerror(errno));
  };
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      HP_RETURN_IF_ERROR(CheckDevice(pending->id.get()));
      return verbs_->CmResolveRoute(pending->id.get(), kResolveMs) == 0 ? OkStatus() : failed("the route");
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      std::array<std::byte, kCmHelloBytes> hello;
      rdma_conn_param parameters = Parameters(*pending, hello.data());
      return verbs_->CmConnect(pending->id.get(), &parameters) == 0 ? OkStatus() : failed("connecting");
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      HP_ASSIGN_OR_RETURN(const CmHello hello, DecodeCmHello(event.private_data));
      if (hello.nonce != nonce_ || hello.epoch != theirs_.epoch || hello.index != index) {
        return FailedPrecondition("librdmacm, queue pair %zu: the answer is not the peer's", index);
      }
      if (event.qp_number != theirs_.qps[index].number) {
        return FailedPrecondition("librdmacm connected queue pair %zu to qp %#x, expected %#x", index, event.qp_number,
                                  theirs_.qps[index].number);
      }
      HP_RETURN_IF_ERROR(pending->qp->Connect(pending->id.get(), mtu_, device_->settings()));
      if (verbs_->CmEstablish(pending->id.get()) != 0) return failed("the last step");
      Up(pending);
      return OkStatus();
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      Up(pending);
      return OkStatus();
    default:
      return Unavailable("librdmacm, queue pair %zu: %s", index, CmEventText(event.type, event.status).c_str());
  }
}

// --- The listening side

void CmConnector::OnRequest(Event event) {
  CmIdHandle id(event.id, {verbs_});
  const StatusOr<CmHello> hello = DecodeCmHello(event.private_data);
  if (!hello.ok()) return Reject(std::move(id), hello.status().message());
  if (hello->nonce != nonce_) return Reject(std::move(id), "it belongs to another connection");
  Request request{std::move(id), *hello, event.qp_number};
  // After a failure the peer waits until Close: first it shall hear why, over TCP.
  if (!pending_.empty() && !failed_) {
    const Status status = Accept(std::move(request));
    if (!status.ok()) Fail(status);
  } else if (early_.size() <= kMaxDataQps) {
    early_.push_back(std::move(request));
  } else {
    Reject(std::move(request.id), "there are too many requests");
  }
}

void CmConnector::Reject(CmIdHandle id, const std::string& why) {
  std::string suffix;
  if (strangers_.Allow(&suffix)) {
    LOG(WARNING) << "a connection request of librdmacm while waiting for " << options_.peer << " was rejected: " << why
                 << suffix;
  }
  LOG_IF(ERROR, verbs_->CmReject(id.get()) != 0) << "librdmacm can't reject it: " << std::strerror(errno);
}

Status CmConnector::Accept(Request request) {
  const size_t index = request.hello.index;
  if (request.hello.epoch != theirs_.epoch || index >= pending_.size() || pending_[index].id ||
      request.qp_number != theirs_.qps[index].number) {
    Reject(std::move(request.id), Format("queue pair %zu, qp %#x, epoch %u: not what %s said it would connect", index,
                                         request.qp_number, request.hello.epoch, options_.peer.c_str()));
    return OkStatus();
  }
  PendingQueuePair& pending = pending_[index];
  pending.id = std::move(request.id);
  HP_RETURN_IF_ERROR(CheckDevice(pending.id.get()));
  HP_RETURN_IF_ERROR(pending.qp->Connect(pending.id.get(), mtu_, device_->settings()));
  std::array<std::byte, kCmHelloBytes> hello;
  rdma_conn_param parameters = Parameters(pending, hello.data());
  if (verbs_->CmAccept(pending.id.get(), &parameters) == 0) return OkStatus();
  return FailedPrecondition("librdmacm, queue pair %zu: accept failed: %s", index, std::strerror(errno));
}

// --- Ends

void CmConnector::Up(PendingQueuePair* pending) {
  pending->up = true;
  if (!std::all_of(pending_.begin(), pending_.end(), [](const PendingQueuePair& each) { return each.up; })) return;
  timer_.cancel();
  listener_.reset();  // nobody else has any business there
  if (const auto connected = std::exchange(callbacks_.connected, {})) connected(OkStatus());
}

void CmConnector::Fail(const Status& status) {
  failed_ = true;
  timer_.cancel();
  if (const auto connected = std::exchange(callbacks_.connected, {})) {
    callbacks_.ended = {};
    return connected(status);
  }
  if (const auto ended = std::exchange(callbacks_.ended, {})) ended(status.message());
}

void CmConnector::OnDeadline() {
  std::string missing;
  for (const PendingQueuePair& pending : pending_) {
    if (!pending.up) missing += Format(" %zu", IndexOf(&pending));
  }
  Fail(DeadlineExceeded("librdmacm did not connect queue pairs%s within %g s", missing.c_str(),
                        options_.deadline_ms / 1e3));
}

}  // namespace hp
