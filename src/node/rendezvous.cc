#include "node/rendezvous.h"

#include "proto/wire.pb.h"
#include "scheduler/control/messages.h"

namespace hp {

Status NodeRendezvous::Set(const std::string& key, const std::string& value) {
  OnMessage(key, value);
  RendezvousMessage message;
  message.set_key(key);
  message.set_value(value);
  const std::string bytes = message.SerializeAsString();
  for (Rank rank : replicas_) {
    if (rank != self_) HP_RETURN_IF_ERROR(transport_->Send(rank, kRendezvousMessage, std::as_bytes(std::span(bytes))));
  }
  return OkStatus();
}

StatusOr<std::string> NodeRendezvous::Get(const std::string& key) {
  MutexLock lock(&mutex_);
  while (!values_.contains(key) && aborted_.ok()) changed_.Wait(&mutex_);
  if (!aborted_.ok()) return aborted_;
  return values_.at(key);
}

Status NodeRendezvous::Check() {
  MutexLock lock(&mutex_);
  return aborted_;
}

void NodeRendezvous::OnMessage(std::string key, std::string value) {
  MutexLock lock(&mutex_);
  values_[std::move(key)] = std::move(value);
  changed_.SignalAll();
}

void NodeRendezvous::Abort(const Status& cause) {
  MutexLock lock(&mutex_);
  aborted_ = cause;
  changed_.SignalAll();
}

}  // namespace hp
