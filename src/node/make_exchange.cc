#include "node/make_exchange.h"

#include "engine/stage_exchange.h"
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/ring_exchange.h"
#include "solvers/exchange/staged_exchange.h"

#include "glog/logging.h"

#include <span>
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

/// The slice of a parameter of the ParamStore that node `server` of the server stage has.
/// @param served JobPlan::served of the conv stage.
const ServedParam::Slice* SliceOf(const std::vector<ServedParam>& served, const StoredParam& param, int server) {
  for (const ServedParam& entry : served) {
    if (entry.param.layer != param.layer || entry.param.blob != param.blob) continue;
    for (const ServedParam::Slice& slice : entry.slices) {
      if (slice.server == server) return &slice;
    }
  }
  return nullptr;
}

/// By number of a slice: the bytes of those that server `server` has, and 0 for others.
std::vector<size_t> BytesOfServer(const std::vector<ServedParam>& served, int server) {
  std::vector<size_t> bytes;
  for (const ServedParam& entry : served) {
    for (const ServedParam::Slice& slice : entry.slices) {
      bytes.push_back(slice.server == server ? static_cast<size_t>(slice.block.count()) * sizeof(float) : 0);
    }
  }
  return bytes;
}

/// The memory of each version of a parameter's values.
std::vector<std::span<float>> VersionsOf(const ParamStore& store, int param) {
  std::vector<std::span<float>> values;
  for (int version = 0; version < store.versions(); ++version) values.push_back(store.values(param, version));
  return values;
}

/// What a server keeps, without what only a run has.
ParameterServer::Options ServerOptionsOf(const NodeModel& model, const StagePart& part,
                                         const std::vector<int>& params) {
  const int served = model.table().stage(part.stage).served;
  const std::vector<StoredParam> stored = model.stored_params();
  ParameterServer::Options options;
  options.replicas = model.table().stage(served).size();
  options.ahead = model.table().staleness() + 1;
  for (const int param : params) {
    const ServedParam::Slice* const slice = SliceOf(model.job().served(served), stored[param], part.index);
    CHECK(slice != nullptr) << stored[param].name() << " is not served here";
    options.params.push_back({param, slice->number, static_cast<size_t>(slice->block.count())});
  }
  return options;
}

}  // namespace

size_t ExchangeHostBytes(const NodeModel& model) {
  size_t bytes = 0;
  for (const StagePart& part : model.node().parts) {
    const ExchangedGroups groups = ExchangedGroupsOf(model, part.stage);
    const StageInfo& stage = model.table().stage(part.stage);
    if (stage.server) {
      bytes += ParameterServer::BytesFor(ServerOptionsOf(model, part, ExchangedParamsOf(model, groups)));
      continue;
    }
    if (groups.empty() || stage.by_nccl || stage.served >= 0) continue;
    const RingPlan plan = PlanOf(model, part, ExchangedParamsOf(model, groups));
    bytes += RingExchange::BytesFor(plan);
    if (model.on_host()) continue;
    for (const size_t count : plan.counts()) bytes += count * sizeof(float);
  }
  return bytes;
}

StatusOr<std::unique_ptr<ServerClient>> MakeServerClient(const ExchangeOptions& options, const ParamStore& store,
                                                         ServerClient::Callbacks callbacks,
                                                         std::unique_ptr<ServerLinks>* links) {
  const RoutingTable& table = options.model->table();
  const int stage = options.part.stage, server_stage = table.stage(stage).served;
  const std::vector<ServedParam>& served = options.model->job().served(stage);
  ServerLinks::Options link{options.transport, table.stage(server_stage).ranks, server_stage, {}};
  std::vector<ServerClient::Param> params;
  for (const int index : options.params) {
    params.push_back({index, store.gradient(index), VersionsOf(store, index), {}});
    for (int server = 0; server < std::ssize(link.peers); ++server) {
      const ServedParam::Slice* const slice = SliceOf(served, store.param(index), server);
      if (slice == nullptr) continue;
      const size_t begin = static_cast<size_t>(slice->block.begin_row * slice->block.cols());
      params.back().pieces.push_back({server, slice->number, begin, static_cast<size_t>(slice->block.count())});
    }
  }
  for (int server = 0; server < std::ssize(link.peers); ++server) {
    link.places.push_back({.stage = stage, .granter = link.peers[server], .bytes = BytesOfServer(served, server)});
  }
  *links = std::make_unique<ServerLinks>(std::move(link));
  return ServerClient::Create(std::move(params), links->get(), std::move(callbacks));
}

StatusOr<std::unique_ptr<ParameterServer>> MakeParameterServer(const ExchangeOptions& options, const ParamStore& store,
                                                               int64_t start_clock,
                                                               ParameterServer::GradientsSink on_gradients,
                                                               std::unique_ptr<ServerLinks>* links) {
  const RoutingTable& table = options.model->table();
  const int stage = options.part.stage, conv_stage = table.stage(stage).served;
  const std::vector<ServedParam>& served = options.model->job().served(conv_stage);
  ServerLinks::Options link{options.transport, table.stage(conv_stage).ranks, conv_stage, {}};
  for (const Rank replica : link.peers) {
    link.places.push_back({.stage = stage, .granter = replica, .bytes = BytesOfServer(served, options.part.index)});
  }
  *links = std::make_unique<ServerLinks>(std::move(link));
  ParameterServer::Options server = ServerOptionsOf(*options.model, options.part, options.params);
  for (ParameterServer::Param& param : server.params) param.values = VersionsOf(store, param.param);
  server.start_clock = start_clock;
  server.end_clock = options.model->schedule().shape().max_iter;
  return ParameterServer::Create(std::move(server), links->get(), std::move(on_gradients));
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
