#include "node/node_exchanges.h"

#include "scheduler/control/exchange_tag.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

namespace hp {

Status NodeExchanges::Connect(const Options& options) {
  for (const StagePart& part : options.model->node().parts) {
    HP_ASSIGN_OR_RETURN(auto exchange, ConnectPart(options, part));
    if (!exchange) continue;
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) exchange->Abort(aborted_);
    exchanges_[part.stage] = std::move(exchange);
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<StageExchange>> NodeExchanges::ConnectPart(const Options& options, const StagePart& part) {
  const StageInfo& stage = options.model->table().stage(part.stage);
  const ExchangedGroups groups = ExchangedGroupsOf(*options.model, part.stage);
  ExchangeOptions exchange;
  exchange.model = options.model;
  exchange.part = part;
  exchange.device = options.device;
  exchange.rendezvous = options.rendezvous;
  exchange.params = ExchangedParamsOf(*options.model, groups);
  exchange.transport = options.transport;
  if (stage.server) {
    HP_RETURN_IF_ERROR(ConnectServer(options, exchange, groups));
    return std::unique_ptr<StageExchange>();
  }
  if (stage.served >= 0) {
    const auto connect = [&](ServerClient::Callbacks callbacks) {
      return MakeServerClient(exchange, *options.params, std::move(callbacks), &links_.emplace_back());
    };
    return StageExchange::CreateServed(part.stage, groups, options.params, connect, options.callbacks);
  }
  std::unique_ptr<ExchangeLinks> links;
  const auto connect = [&](Exchange::Callbacks callbacks) {
    exchange.callbacks = std::move(callbacks);
    return MakeNodeExchange(exchange, &links);
  };
  auto made = StageExchange::Create(part.stage, groups, options.params, connect, options.callbacks);
  if (links) links_.push_back(std::move(links));
  return made;
}

Status NodeExchanges::ConnectServer(const Options& options, const ExchangeOptions& exchange,
                                    const ExchangedGroups& groups) {
  const auto connect = [&](ParameterServer::GradientsSink on_gradients) {
    return MakeParameterServer(exchange, *options.params, options.start_clock, std::move(on_gradients),
                               &links_.emplace_back());
  };
  HP_ASSIGN_OR_RETURN(server_, StageServer::Create(exchange.part.stage, groups, options.params, connect,
                                                   options.callbacks.on_exchanged));
  return OkStatus();
}

void NodeExchanges::Abort(const Status& cause) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = cause;
  for (const auto& [stage, exchange] : exchanges_) exchange->Abort(cause);
}

std::map<int, StageExchange*> NodeExchanges::by_stage() const {
  MutexLock lock(&mutex_);
  std::map<int, StageExchange*> exchanges;
  for (const auto& [stage, exchange] : exchanges_) exchanges[stage] = exchange.get();
  return exchanges;
}

std::vector<ExchangePlaces> NodeExchanges::places() const {
  std::vector<ExchangePlaces> places;
  for (const auto& links : links_) places.insert(places.end(), links->places().begin(), links->places().end());
  return places;
}

void NodeExchanges::AddPayload(std::map<Rank, Payload>* payload) const {
  for (const auto& links : links_) {
    for (const auto& [peer, moved] : links->payload()) (*payload)[peer] += moved;
  }
}

ExchangeLinks& NodeExchanges::LinksOf(const PlaceTag& tag) const {
  const int stage = static_cast<int>(ExchangeStage(tag));
  const auto found = std::find_if(links_.begin(), links_.end(), [stage](const auto& links) {
    return links->granted_stage() == stage || links->written_stage() == stage;
  });
  CHECK(found != links_.end()) << "stage " << stage << " has no exchange here";
  return **found;
}

void NodeExchanges::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant) {
  LinksOf(tag).OnGranted(peer, tag, grant);
}

void NodeExchanges::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  LinksOf(tag).OnGrantEnded(peer, tag, status);
}

void NodeExchanges::OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  LinksOf(tag).OnWriteEnded(peer, tag, status);
}

}  // namespace hp
