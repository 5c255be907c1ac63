#include "engine/pull_server.h"

#include "proto/wire.pb.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int64_t kChunkFloats = 192 << 10;  // 768 KiB: below kMaxMessageBytes with its description

}  // namespace

void PullServer::OnRequest(Rank rank) {
  MutexLock lock(&mutex_);
  Client& client = clients_[rank];
  if (client.model) SendNext(rank, &client);
}

void PullServer::OnGone(Rank rank) {
  MutexLock lock(&mutex_);
  clients_.erase(rank);
}

bool PullServer::TakeOrder() {
  MutexLock lock(&mutex_);
  bool any = false;
  for (auto& [rank, client] : clients_) {
    if (client.model || client.ordered) continue;
    client.ordered = any = true;
  }
  return any;
}

void PullServer::OnGathered(std::shared_ptr<const GatheredModel> model) {
  MutexLock lock(&mutex_);
  LOG(INFO) << "weights of iteration " << model->iteration() << " go to " << clients_.size() << " client(s)";
  for (auto& [rank, client] : clients_) {
    if (client.model || !client.ordered) continue;
    client.model = model;
    SendNext(rank, &client);
  }
}

void PullServer::SendNext(Rank rank, Client* client) {
  const std::vector<WholeParam>& params = client->model->params();
  if (client->param >= params.size()) return;
  const StoredParam& whole = params[client->param].whole;
  const int64_t count = std::min(kChunkFloats, whole.whole.count() - client->offset);
  PullChunk chunk;
  chunk.set_iteration(client->model->iteration());
  chunk.set_layer(whole.layer);
  chunk.set_blob(whole.blob);
  for (int64_t dim : whole.whole.dims()) chunk.add_dim(dim);
  chunk.set_offset(client->offset);
  values_.resize(count);
  client->model->CopyValues(client->param, client->offset, values_);
  chunk.set_data(values_.data(), count * sizeof(float));
  client->offset += count;
  if (client->offset == whole.whole.count()) {
    ++client->param;
    client->offset = 0;
  }
  chunk.set_last(client->param == params.size());
  const std::string bytes = chunk.SerializeAsString();
  const Status status = transport_->Send(rank, kPullChunk, std::as_bytes(std::span(bytes)));
  if (!status.ok()) LOG(WARNING) << "client " << rank << ": " << status;
}

}  // namespace hp
