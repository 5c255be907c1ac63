// A client is idle, waits for a copy, or has one and a position in it, the next chunk. One copy serves all clients that
// wait when it is requested: TakeRequest marks them, OnGathered gives it to the marked ones; who comes in between waits
// for the next copy. Chunks go out one for each request, so a slow client never fills the transport's queue, and
// a model is freed with its last client. They are copied and sent without the lock: which chunk answers a request is
// decided under it, and one thread at a time does so for a client, so that its chunks keep their order.
#include "snapshot/pull_server.h"

#include "proto/wire.pb.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr int64_t kChunkFloats = 192 << 10;  // 768 KiB: below kMaxMessageBytes with its description

}  // namespace

void PullServer::OnConnected(Rank rank) {
  MutexLock lock(&mutex_);
  clients_[rank].asked_ns = clock_->NowNs();
}

void PullServer::OnRequest(Rank rank) {
  {
    MutexLock lock(&mutex_);
    const auto found = clients_.find(rank);
    if (found == clients_.end()) return;  // dropped
    found->second.asked_ns = clock_->NowNs();
    ++found->second.requests;
  }
  Serve(rank);
}

void PullServer::OnOtherRequest(Rank rank) {
  MutexLock lock(&mutex_);
  if (const auto found = clients_.find(rank); found != clients_.end()) found->second.asked_ns = clock_->NowNs();
}

void PullServer::OnGone(Rank rank) {
  MutexLock lock(&mutex_);
  clients_.erase(rank);
}

size_t PullServer::models() const {
  std::set<const GatheredModel*> models;
  for (const auto& [rank, client] : clients_) {
    if (client.next.model) models.insert(client.next.model.get());
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
  std::vector<Rank> asked;
  {
    MutexLock lock(&mutex_);
    for (auto& [rank, client] : clients_) {
      if (!client.requested) continue;
      client.waits = client.requested = false;
      client.next = {model};
      client.asked_ns = clock_->NowNs();
      ++client.requests;  // the one that waited
      asked.push_back(rank);
    }
  }
  LOG(INFO) << "sending the weights of iteration " << model->iteration() << " to " << asked.size() << " client(s)";
  for (const Rank rank : asked) Serve(rank);
}

void PullServer::Serve(Rank rank) {
  for (bool first = true;; first = false) {
    Position chunk;
    {
      MutexLock lock(&mutex_);
      const auto found = clients_.find(rank);
      if (found == clients_.end()) return;
      Client& client = found->second;
      if (first && client.served) return;
      chunk = TakeNext(&client, rank);
      client.served = chunk.model != nullptr;
      if (!client.served) return;
    }
    Send(rank, std::move(chunk));
  }
}

PullServer::Position PullServer::TakeNext(Client* client, Rank rank) {
  if (client->requests == 0) return {};
  --client->requests;
  if (client->next.model) {
    Position chunk = client->next;
    if (!client->next.Advance()) client->next = {};
    return chunk;
  }
  if (client->waits || client->requests > 0) {
    transport_->Break(rank, Unavailable("it asked again before it had an answer"));
  }
  client->waits = true;
  client->requests = 0;
  return {};
}

int64_t PullServer::Position::count() const {
  return std::min(kChunkFloats, model->params()[param].whole.whole.count() - offset);
}

SharedBlob PullServer::Position::blob() const {
  const WholeParam& of = model->params()[param];
  return name > 0 ? of.users[name - 1] : SharedBlob{of.whole.layer, of.whole.blob, of.whole.whole};
}

bool PullServer::Position::Advance() {
  offset += count();
  if (offset == model->params()[param].whole.whole.count()) {
    offset = 0;
    if (name++ == model->params()[param].users.size()) {
      ++param;
      name = 0;
    }
  }
  return param < model->params().size();
}

void PullServer::Send(Rank rank, Position chunk) {
  const SharedBlob blob = chunk.blob();
  std::vector<float> values(chunk.count());
  chunk.model->CopyValues(chunk.param, chunk.offset, values);
  PullChunk message;
  message.set_iteration(chunk.model->iteration());
  message.set_layer(blob.layer);
  message.set_blob(blob.blob);
  for (int64_t dim : blob.shape.dims()) message.add_dim(dim);
  message.set_offset(chunk.offset);
  message.set_data(values.data(), values.size() * sizeof(float));
  message.set_last(!chunk.Advance());
  const std::string bytes = message.SerializeAsString();
  const Status status = transport_->Send(rank, kPullChunk, std::as_bytes(std::span(bytes)));
  if (status.ok()) return;
  LOG(WARNING) << "client " << rank << ": " << status;
  transport_->Break(rank, status);  // it asks and does not read
}

}  // namespace hp
