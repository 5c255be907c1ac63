#include "node/make_exchange.h"

#include "engine/stage_exchange.h"
#include "solvers/exchange/collective_exchange.h"
#include "solvers/exchange/direct_allreduce.h"
#include "solvers/exchange/linked_exchange.h"
#include "solvers/exchange/ring.h"
#include "solvers/exchange/staged_exchange.h"

#include "glog/logging.h"

#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace hp {
namespace {

using ExchangePtr = std::unique_ptr<Exchange>;

StatusOr<ExchangePtr> OverGpus(const ExchangeOptions& options, int replicas) {
  HP_ASSIGN_OR_RETURN(auto collectives, options.device->connect(options.part.index, replicas, options.rendezvous));
  return ExchangePtr(
      std::make_unique<CollectiveExchange>(options.device->device.get(), std::move(collectives), options.callbacks));
}

/// How the gradients of a stage are summed over the node's connections: round a ring; or as DirectPlan says, where they
/// cross the network in bfloat16, those of moving averages excepted, or where replicas share hosts.
struct Sums {
  /// @param params of ExchangedParamsOf.
  Sums(const NodeModel& model, const StagePart& part, const std::vector<int>& params) {
    const StageInfo& stage = model.table().stage(part.stage);
    const bool rounds = model.table().wire() == ElementType::kBFloat16;
    direct = rounds || stage.sums_within_hosts();
    if (stage.sums_within_hosts()) host_of = stage.host_of;
    const std::vector<StoredParam> stored = model.stored_params();
    cut.rank = part.index;
    cut.size = stage.size();
    for (int param : params) {
      cut.counts.push_back(static_cast<size_t>(stored[param].gradient_count()));
      if (direct) cut.exact.push_back(!rounds || stored[param].average_keeps.has_value());
    }
  }
  DirectPlan Direct() const { return DirectPlan(cut, host_of); }
  RingPlan Ring(int replica) const {
    BlockPlan::Options options = cut;
    options.rank = replica;
    return RingPlan(options);
  }

  BlockPlan::Options cut;
  bool direct = false;
  std::vector<int> host_of;  // of DirectPlan
};

/// @return what each replica to which this one writes grants it.
std::vector<ExchangePlaces> PlacesOf(const ExchangeOptions& options, const Sums& sums) {
  const std::vector<Rank>& ranks = options.model->table().stage(options.part.stage).ranks;
  std::vector<ExchangePlaces> places;
  if (!sums.direct) {
    const RingPlan plan = sums.Ring(sums.cut.rank);
    places.push_back({.stage = options.part.stage, .granter = ranks[plan.right()], .bytes = plan.SentBytes()});
    return places;
  }
  const DirectPlan plan = sums.Direct();
  for (int replica = 0; replica < plan.size(); ++replica) {
    if (!plan.Meets(replica)) continue;
    places.push_back({.stage = options.part.stage, .granter = ranks[replica], .bytes = plan.BytesFrom(replica)});
  }
  return places;
}

int64_t SumOf(const std::vector<size_t>& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

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
    const Sums sums(model, part, ExchangedParamsOf(model, groups));
    if (sums.direct) {
      const DirectPlan plan = sums.Direct();
      bytes += LinkedExchange::BucketBytes(plan) + DirectAllreduce::BytesFor(plan);
    } else {
      const RingPlan plan = sums.Ring(part.index);
      bytes += LinkedExchange::BucketBytes(plan) + Ring::BytesFor(plan);
    }
    if (model.on_host()) continue;
    for (const size_t count : sums.cut.counts) bytes += count * sizeof(float);
  }
  return bytes;
}

DirectPlan::Traffic SummedBytes(const NodeModel& model, const StagePart& part) {
  const Sums sums(model, part, ExchangedParamsOf(model, ExchangedGroupsOf(model, part.stage)));
  if (sums.direct && !model.table().stage(part.stage).by_nccl) return sums.Direct().TrafficOfAll();
  const RingPlan plan = sums.Ring(part.index);
  return {SumOf(plan.SentBytes()), SumOf(sums.Ring(plan.left()).SentBytes())};
}

StatusOr<std::unique_ptr<ServerClient>> MakeServerClient(const ExchangeOptions& options, const ParamStore& store,
                                                         ServerClient::Callbacks callbacks,
                                                         std::unique_ptr<ExchangeLinks>* links) {
  const RoutingTable& table = options.model->table();
  const int stage = options.part.stage, server_stage = table.stage(stage).served;
  const std::vector<ServedParam>& served = options.model->job().served(stage);
  ExchangeLinks::Options link{
      options.transport, table.stage(server_stage).ranks, server_stage, {}, options.device->device.get()};
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
  *links = std::make_unique<ExchangeLinks>(std::move(link));
  return ServerClient::Create(std::move(params), links->get(), std::move(callbacks));
}

StatusOr<std::unique_ptr<ParameterServer>> MakeParameterServer(const ExchangeOptions& options, const ParamStore& store,
                                                               int64_t start_clock,
                                                               ParameterServer::GradientsSink on_gradients,
                                                               std::unique_ptr<ExchangeLinks>* links) {
  const RoutingTable& table = options.model->table();
  const int stage = options.part.stage, conv_stage = table.stage(stage).served;
  const std::vector<ServedParam>& served = options.model->job().served(conv_stage);
  ExchangeLinks::Options link{
      options.transport, table.stage(conv_stage).ranks, conv_stage, {}, options.device->device.get()};
  for (const Rank replica : link.peers) {
    link.places.push_back({.stage = stage, .granter = replica, .bytes = BytesOfServer(served, options.part.index)});
  }
  *links = std::make_unique<ExchangeLinks>(std::move(link));
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
  const Sums how(*options.model, options.part, options.params);
  Device* const device = options.device->device.get();
  *links = std::make_unique<ExchangeLinks>(
      ExchangeLinks::Options{options.transport, stage.ranks, options.part.stage, PlacesOf(options, how), device});
  const auto sums = [&](Allreduce::DoneSink on_done) {
    if (how.direct) return DirectAllreduce::Create(how.Direct(), links->get(), std::move(on_done));
    return Ring::Create(how.Ring(how.cut.rank), links->get(), std::move(on_done));
  };
  const auto linked = [&](Exchange::Callbacks callbacks) -> StatusOr<ExchangePtr> {
    HP_ASSIGN_OR_RETURN(auto exchange,
                        LinkedExchange::Create(sums, options.params, links->get(), std::move(callbacks)));
    return ExchangePtr(std::move(exchange));
  };
  if (device->is_host()) return linked(options.callbacks);
  return StagedExchange::Create(device, linked, options.callbacks);
}

}  // namespace hp
