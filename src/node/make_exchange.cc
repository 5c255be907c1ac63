#include "node/make_exchange.h"

#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/gloo_exchange.h"
#include "solvers/exchange/local_exchange.h"
#include "solvers/exchange/staged_exchange.h"

#include <utility>

namespace hp {
namespace {

using ExchangePtr = std::unique_ptr<Exchange>;

StatusOr<ExchangePtr> OverGpus(const ExchangeOptions& options, const NodeInfo& node, int replicas) {
  HP_ASSIGN_OR_RETURN(auto collectives, options.device->connect(node.index, replicas, options.rendezvous));
  return ExchangePtr(
      std::make_unique<CollectiveExchange>(options.device->device.get(), std::move(collectives), options.on_failure));
}

}  // namespace

StatusOr<ExchangePtr> MakeNodeExchange(const ExchangeOptions& options) {
  const NodeInfo& node = options.table->node(options.rank);
  const StageInfo& stage = options.table->stage(node.stage);
  if (!stage.conv || stage.size() == 1) return ExchangePtr(std::make_unique<LocalExchange>());
  if (options.device->connect && stage.all_on_gpus) return OverGpus(options, node, stage.size());
  GlooOptions gloo;
  gloo.rank = node.index;
  gloo.size = stage.size();
  gloo.address = node.host;
  gloo.key_prefix = "conv";
  gloo.on_failure = options.on_failure;
  HP_ASSIGN_OR_RETURN(ExchangePtr exchange, ConnectGlooExchange(gloo, options.rendezvous));
  Device* const device = options.device->device.get();
  if (device->is_host()) return exchange;
  return ExchangePtr(std::make_unique<StagedExchange>(device, std::move(exchange)));
}

}  // namespace hp
