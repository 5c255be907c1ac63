#include "scheduler/control/client_desk.h"

#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <span>
#include <string>

namespace hp {

void ClientDesk::OnStatusRequest(Rank client) { Send(client, kStatusAnswer, options_.status()); }

void ClientDesk::OnOrder(Rank client, const JobOrder& order) {
  LOG(INFO) << "order of client " << client << ": " << JobOrder::Kind_Name(order.kind());
  if (options_.training()) {
    return options_.requests->Order(order, [this, client](const StatusOr<int64_t>& at) { Answer(client, at); });
  }
  if (order.kind() != JobOrder::STOP) return Answer(client, FailedPrecondition("the job does not train yet"));
  Answer(client, 0);
  options_.stop();
}

void ClientDesk::Answer(Rank client, const StatusOr<int64_t>& at) {
  OrderAnswer answer;
  answer.set_status(static_cast<int>(at.status().code()));
  if (at.ok()) {
    answer.set_iteration(*at);
  } else {
    answer.set_message(at.status().message());
  }
  Send(client, kOrderAnswer, answer);
}

// A client that asks and does not read fills its queue, and loses its connection.
void ClientDesk::Send(Rank client, uint32_t type, const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  const Status status = options_.transport->Send(client, type, std::as_bytes(std::span(bytes)));
  if (status.code() == StatusCode::kResourceExhausted) options_.transport->Break(client, status);
}

}  // namespace hp
