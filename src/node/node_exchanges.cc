#include "node/node_exchanges.h"

#include "scheduler/control/exchange_tag.h"

#include <utility>

namespace hp {

Status NodeExchanges::Connect(const Options& options) {
  for (const StagePart& part : options.model->node().parts) {
    const ExchangedGroups groups = ExchangedGroupsOf(*options.model, part.stage);
    std::unique_ptr<ExchangeLinks> links;
    const auto connect = [&](Exchange::Callbacks callbacks) {
      ExchangeOptions exchange;
      exchange.model = options.model;
      exchange.part = part;
      exchange.device = options.device;
      exchange.rendezvous = options.rendezvous;
      exchange.params = ExchangedParamsOf(*options.model, groups);
      exchange.transport = options.transport;
      exchange.callbacks = std::move(callbacks);
      return MakeNodeExchange(exchange, &links);
    };
    HP_ASSIGN_OR_RETURN(auto exchange,
                        StageExchange::Create(part.stage, groups, options.params, connect, options.callbacks));
    if (links) links_[part.stage] = std::move(links);
    if (!exchange) continue;
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) exchange->Abort(aborted_);
    exchanges_[part.stage] = std::move(exchange);
  }
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
  for (const auto& [stage, links] : links_) places.push_back(links->places());
  return places;
}

void NodeExchanges::AddPayload(std::map<Rank, Payload>* payload) const {
  for (const auto& [stage, links] : links_) {
    for (const auto& [peer, moved] : links->payload()) (*payload)[peer] += moved;
  }
}

ExchangeLinks& NodeExchanges::LinksOf(const PlaceTag& tag) const {
  return *links_.at(static_cast<int>(ExchangeStage(tag)));
}

void NodeExchanges::OnGranted(const PlaceTag& tag, RemoteGrant grant) { LinksOf(tag).OnGranted(tag, grant); }

void NodeExchanges::OnGrantEnded(const PlaceTag& tag, const Status& status) { LinksOf(tag).OnGrantEnded(tag, status); }

void NodeExchanges::OnWriteEnded(const PlaceTag& tag, const Status& status) { LinksOf(tag).OnWriteEnded(tag, status); }

}  // namespace hp
