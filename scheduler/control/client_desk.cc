#include "scheduler/control/client_desk.h"

#include "scheduler/control/messages.h"
#include "scheduler/control/order_text.h"

#include "glog/logging.h"

#include <ctime>
#include <span>

namespace hp {

void ClientDesk::OnStatusRequest(Rank client) {
  JobStatus status = options_.status();
  if (last_order_) *status.mutable_last_order() = *last_order_;
  Send(client, kStatusAnswer, status);
}

void ClientDesk::OnOrder(Rank client, const JobOrder& order) {
  const std::string text = "order " + NameOfOrder(order) + " " + DescribeGiver(order.giver(), options_.address(client));
  LOG(INFO) << text;
  last_order_.emplace();
  last_order_->set_text(text);
  last_order_->set_time_s(std::time(nullptr));
  if (options_.training()) {
    return options_.requests->Order(order,
                                    [this, client, order](const StatusOr<int64_t>& at) { Answer(client, order, at); });
  }
  if (order.kind() != JobOrder::STOP) return Answer(client, order, FailedPrecondition("the job does not train yet"));
  Answer(client, order, 0);
  options_.stop();
}

void ClientDesk::Answer(Rank client, const JobOrder& order, const StatusOr<int64_t>& at) {
  LOG(INFO) << "order " << NameOfOrder(order)
            << (at.ok() ? ": in front of iteration " + std::to_string(*at) : " is refused: " + at.status().message());
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
