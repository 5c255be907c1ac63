#include "node/make_exchange.h"

#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/gloo_exchange.h"
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

}  // namespace

StatusOr<ExchangePtr> MakeNodeExchange(const ExchangeOptions& options) {
  const NodeInfo& node = options.table->node(options.rank);
  const StageInfo& stage = options.table->stage(options.part.stage);
  CHECK(stage.conv && stage.size() > 1) << "node " << node.name << " is not one of several replicas";
  if (options.device->connect && stage.all_on_gpus) return OverGpus(options, stage.size());
  GlooOptions gloo;
  gloo.rank = options.part.index;
  gloo.size = stage.size();
  gloo.address = node.host;
  gloo.key_prefix = "conv";
  const auto connect = [&](Exchange::Callbacks callbacks) {
    return ConnectGlooExchange(gloo, options.rendezvous, std::move(callbacks));
  };
  Device* const device = options.device->device.get();
  if (device->is_host()) return connect(options.callbacks);
  return StagedExchange::Create(device, connect, options.callbacks);
}

}  // namespace hp
