#include "node/make_exchange.h"

#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/ring_exchange.h"
#include "solvers/exchange/staged_exchange.h"

#include "glog/logging.h"

#include <utility>

namespace hp {
namespace {

using ExchangePtr = std::unique_ptr<Exchange>;

StatusOr<ExchangePtr> OverGpus(const ExchangeOptions& options, int replicas) {
  HP_ASSIGN_OR_RETURN(auto collectives, options.device->connect(options.part.index, replicas, options.rendezvous));
  return ExchangePtr(
      std::make_unique<CollectiveExchange>(options.device->device.get(), std::move(collectives), options.callbacks));
}

RingPlan PlanOf(const ExchangeOptions& options, int replicas) {
  RingPlan::Options plan;
  plan.rank = options.part.index;
  plan.size = replicas;
  for (int param : options.params) plan.counts.push_back(static_cast<size_t>(options.store->count(param)));
  return RingPlan(std::move(plan));
}

std::unique_ptr<ExchangeLinks> LinksOf(const ExchangeOptions& options, const RingPlan& plan) {
  const std::vector<Rank>& ranks = options.table->stage(options.part.stage).ranks;
  const size_t own = static_cast<size_t>(options.part.index), size = ranks.size();
  const Rank left = ranks[(own + size - 1) % size], right = ranks[(own + 1) % size];
  return std::make_unique<ExchangeLinks>(
      options.transport, left,
      ExchangePlaces{.stage = options.part.stage, .granter = right, .bytes = plan.SentBytes()});
}

}  // namespace

StatusOr<ExchangePtr> MakeNodeExchange(const ExchangeOptions& options, std::unique_ptr<ExchangeLinks>* links) {
  const StageInfo& stage = options.table->stage(options.part.stage);
  CHECK(stage.conv && stage.size() > 1) << "stage " << stage.name << " has no replicas that exchange";
  if (options.device->connect && stage.by_nccl) return OverGpus(options, stage.size());
  const RingPlan plan = PlanOf(options, stage.size());
  *links = LinksOf(options, plan);
  const auto ring = [&](Exchange::Callbacks callbacks) -> StatusOr<ExchangePtr> {
    HP_ASSIGN_OR_RETURN(auto exchange, RingExchange::Create(plan, options.params, links->get(), std::move(callbacks)));
    return ExchangePtr(std::move(exchange));
  };
  Device* const device = options.device->device.get();
  if (device->is_host()) return ring(options.callbacks);
  return StagedExchange::Create(device, ring, options.callbacks);
}

}  // namespace hp
