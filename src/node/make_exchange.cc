#include "node/make_exchange.h"

#include "engine/stage_exchange.h"
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

/// What goes round the ring of a stage. @param params of ExchangedParamsOf.
RingPlan PlanOf(const NodeModel& model, const StagePart& part, const std::vector<int>& params) {
  const std::vector<StoredParam> stored = model.stored_params();
  RingPlan::Options plan;
  plan.rank = part.index;
  plan.size = model.table().stage(part.stage).size();
  for (int param : params) plan.counts.push_back(static_cast<size_t>(stored[param].gradient_count()));
  return RingPlan(std::move(plan));
}

std::unique_ptr<ExchangeLinks> LinksOf(const ExchangeOptions& options, const RingPlan& plan) {
  const std::vector<Rank>& ranks = options.model->table().stage(options.part.stage).ranks;
  const size_t own = static_cast<size_t>(options.part.index), size = ranks.size();
  const Rank left = ranks[(own + size - 1) % size], right = ranks[(own + 1) % size];
  return std::make_unique<ExchangeLinks>(
      options.transport, left,
      ExchangePlaces{.stage = options.part.stage, .granter = right, .bytes = plan.SentBytes()});
}

}  // namespace

size_t ExchangeHostBytes(const NodeModel& model) {
  size_t bytes = 0;
  for (const StagePart& part : model.node().parts) {
    const ExchangedGroups groups = ExchangedGroupsOf(model, part.stage);
    if (groups.empty() || model.table().stage(part.stage).by_nccl) continue;
    const RingPlan plan = PlanOf(model, part, ExchangedParamsOf(model, groups));
    bytes += RingExchange::BytesFor(plan);
    if (model.on_host()) continue;
    for (const size_t count : plan.counts()) bytes += count * sizeof(float);
  }
  return bytes;
}

StatusOr<ExchangePtr> MakeNodeExchange(const ExchangeOptions& options, std::unique_ptr<ExchangeLinks>* links) {
  const StageInfo& stage = options.model->table().stage(options.part.stage);
  CHECK(stage.conv && stage.size() > 1) << "stage " << stage.name << " has no replicas that exchange";
  if (options.device->connect && stage.by_nccl) return OverGpus(options, stage.size());
  const RingPlan plan = PlanOf(*options.model, options.part, options.params);
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
