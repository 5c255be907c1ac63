// A client is idle, waits for a copy, or has one and a position in it, the next chunk. One copy serves all clients that
// wait when it is requested: TakeRequest marks them, OnGathered gives it to the marked ones; who comes in between waits
// for the next copy. Chunks go out one for each request, so a slow client never fills the transport's queue, and
// a model is freed with its last client.
#include "snapshot/pull_server.h"

#include "proto/wire.pb.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <algorithm>
#include <set>
#include <string>

namespace hp {
namespace {

constexpr int64_t kChunkFloats = 192 << 10;  // 768 KiB: below kMaxMessageBytes with its description

}  // namespace

void PullServer::OnConnected(Rank rank) {
  MutexLock lock(&mutex_);
  clients_[rank].asked_ns = clock_->NowNs();
}

void PullServer::OnRequest(Rank rank) {
  MutexLock lock(&mutex_);
  const auto found = clients_.find(rank);
  if (found == clients_.end()) return;  // dropped
  Client& client = found->second;
  if (client.waits) return transport_->Break(rank, Unavailable("it asked again before it had an answer"));
  client.asked_ns = clock_->NowNs();
  if (client.model) {
    SendNext(rank, &client);
  } else {
    client.waits = true;
  }
}

void PullServer::OnGone(Rank rank) {
  MutexLock lock(&mutex_);
  clients_.erase(rank);
}

size_t PullServer::models() const {
  std::set<const GatheredModel*> models;
  for (const auto& [rank, client] : clients_) {
    if (client.model) models.insert(client.model.get());
  }
  return models.size();
}

void PullServer::DropSilent() {
  const int64_t now_ns = clock_->NowNs();
  std::erase_if(clients_, [this, now_ns](const auto& entry) {
    const auto& [rank, client] = entry;
    const bool silent = !client.waits && now_ns - client.asked_ns > kIdleNs;
    if (silent) {
      LOG(WARNING) << "client " << rank << " has sent no request for " << kIdleNs / kNsPerSecond
                   << " s: closing its connection";
      transport_->Break(rank, Unavailable("no request for %lld s", static_cast<long long>(kIdleNs / kNsPerSecond)));
    }
    return silent;
  });
}

bool PullServer::TakeRequest() {
  MutexLock lock(&mutex_);
  DropSilent();
  bool waits = false;
  for (const auto& [rank, client] : clients_) {
    if (client.requested) return false;
    waits |= client.waits;
  }
  if (!waits || models() >= kMaxModels) return false;
  for (auto& [rank, client] : clients_) client.requested = client.waits;
  return true;
}

void PullServer::OnGathered(std::shared_ptr<const GatheredModel> model) {
  MutexLock lock(&mutex_);
  int served = 0;
  for (auto& [rank, client] : clients_) {
    if (!client.requested) continue;
    client = Client();
    client.model = model;
    client.asked_ns = clock_->NowNs();
    SendNext(rank, &client);
    ++served;
  }
  LOG(INFO) << "sending the weights of iteration " << model->iteration() << " to " << served << " client(s)";
}

void PullServer::SendNext(Rank rank, Client* client) {
  const GatheredModel& model = *client->model;
  const StoredParam& whole = model.params()[client->param].whole;
  const int64_t count = std::min(kChunkFloats, whole.whole.count() - client->offset);
  PullChunk chunk;
  chunk.set_iteration(model.iteration());
  chunk.set_layer(whole.layer);
  chunk.set_blob(whole.blob);
  for (int64_t dim : whole.whole.dims()) chunk.add_dim(dim);
  chunk.set_offset(client->offset);
  values_.resize(count);
  model.CopyValues(client->param, client->offset, values_);
  chunk.set_data(values_.data(), count * sizeof(float));
  client->offset += count;
  if (client->offset == whole.whole.count()) {
    ++client->param;
    client->offset = 0;
  }
  chunk.set_last(client->param == model.params().size());
  const std::string bytes = chunk.SerializeAsString();
  const Status status = transport_->Send(rank, kPullChunk, std::as_bytes(std::span(bytes)));
  if (!status.ok()) {
    LOG(WARNING) << "client " << rank << ": " << status;
    transport_->Break(rank, status);  // it asks and does not read
    return;
  }
  if (!chunk.last()) return;
  const int64_t asked_ns = client->asked_ns;
  *client = Client();
  client->asked_ns = asked_ns;
}

}  // namespace hp
