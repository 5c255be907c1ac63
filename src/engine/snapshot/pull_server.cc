#include "engine/snapshot/pull_server.h"

#include "proto/wire.pb.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

namespace hp {
namespace {

constexpr int64_t kChunkFloats = 192 << 10;  // 768 KiB: below kMaxMessageBytes with its description

}  // namespace

void PullServer::OnRequest(Rank rank) {
  MutexLock lock(&mutex_);
  Client& client = clients_[rank];
  client.asked_ns = clock_->NowNs();
  if (client.model && !SendNext(rank, &client)) clients_.erase(rank);
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

void PullServer::ForgetIdle() {
  const int64_t now_ns = clock_->NowNs();
  std::erase_if(clients_, [now_ns](const auto& entry) {
    const Client& client = entry.second;
    const bool idle = client.model && now_ns - client.asked_ns > kIdleNs;
    if (idle) {
      LOG(WARNING) << "client " << entry.first << " has asked for nothing for " << kIdleNs / kNsPerSecond
                   << " s: it gives up its copy of iteration " << client.model->iteration() << " to others";
    }
    return idle;
  });
}

bool PullServer::TakeOrder() {
  MutexLock lock(&mutex_);
  bool waits = false;
  for (const auto& [rank, client] : clients_) {
    if (client.ordered && !client.model) return false;
    waits |= !client.model;
  }
  if (!waits) return false;
  if (models() >= kMaxModels) ForgetIdle();
  if (models() >= kMaxModels) return false;
  for (auto& [rank, client] : clients_) client.ordered = true;
  return true;
}

void PullServer::OnGathered(std::shared_ptr<const GatheredModel> model) {
  MutexLock lock(&mutex_);
  LOG(INFO) << "weights of iteration " << model->iteration() << " go to " << clients_.size() << " client(s)";
  for (auto entry = clients_.begin(); entry != clients_.end();) {
    Client& client = entry->second;
    bool more = true;
    if (client.ordered && !client.model) {
      client.model = model;
      client.asked_ns = clock_->NowNs();
      more = SendNext(entry->first, &client);
    }
    entry = more ? std::next(entry) : clients_.erase(entry);
  }
}

bool PullServer::SendNext(Rank rank, Client* client) {
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
  if (!status.ok()) LOG(WARNING) << "client " << rank << ": " << status;
  return !chunk.last();
}

}  // namespace hp
