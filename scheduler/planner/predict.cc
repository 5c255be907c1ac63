// An iteration of a table as a pipeline of rounds. In a round each replica sends one micro-batch through the shards and
// back. A round can't take less than its busiest resource (a processor, a link one way), nor than the way of a
// micro-batch divided by the rounds that the pools let be under way at once; an iteration is one such way and the other
// rounds, then what the exchange of gradients lets show behind the last backward pass. Every resource's sum over the
// iteration is a lower bound, and their maximum is the limit that is printed.
#include "scheduler/planner/predict.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

constexpr double kConvPool = 4;  // as JobPlan chooses

int Count(const std::vector<HostGroup>& groups, int HostGroup::*nodes) {
  int count = 0;
  for (const HostGroup& group : groups) count += group.hosts * (group.*nodes);
  return count;
}

double RowsOfBatch(const std::vector<HostGroup>& groups) {
  double rows = 0;
  for (const HostGroup& group : groups) rows += group.hosts * group.replicas * group.rows;
  return rows;
}

/// Solvers of a node, as JobPlan chooses them.
double PoolOf(bool shard, double rounds, int replicas) {
  if (!shard) return std::min(rounds, kConvPool);
  return std::min(rounds * replicas, std::max(2.0 * replicas, kConvPool));
}

}  // namespace

Predictor::NodeModel& Predictor::ModelOf(const DividedNet& net, bool shard, int place) {
  const NodePlan* const plan = shard ? net.shard() : &net.replica();
  NodeModel& model = models_[{plan, place}];
  if (model.plan != nullptr) return model;
  model.plan = plan;
  const HostPlace& at = hosts_->places[place];
  model.layers = std::make_unique<LayerTimes>(net.costs(), at.speed, at.profile.get(), at.scale);
  model.node = std::make_unique<NodeTimes>(*plan, *model.layers);
  for (const int layer : plan->learning_layers()) model.update += model.node->Update(layer);
  return model;
}

const Predictor::Times& Predictor::TimesOfWhole(const DividedNet& net, bool shard, int place, int64_t rows) {
  NodeModel& model = ModelOf(net, shard, place);
  const auto [found, added] = model.by_rows.try_emplace(rows);
  Times& times = found->second;
  if (!added) return times;
  const double each = static_cast<double>(rows);
  for (int segment = 0; segment < model.plan->segments(); ++segment) {
    times.forward += model.node->Forward(segment, each);
    times.backward += model.node->Backward(segment, each);
  }
  for (const int layer : model.plan->learning_layers()) times.weights += model.node->WeightGradient(layer, each);
  return times;
}

/// Micro-batches differ by a row: of 8.25 rows on average one in four has 9.
Predictor::Times Predictor::TimesOf(const DividedNet& net, bool shard, int place, double rows) {
  const double least = std::max(1.0, std::floor(rows + 1e-9)), more = std::max(0.0, rows - least);
  Times times = TimesOfWhole(net, shard, place, std::llround(least));
  if (more < 1e-9) return times;
  const Times& next = TimesOfWhole(net, shard, place, std::llround(least) + 1);
  times.forward += more * (next.forward - times.forward);
  times.backward += more * (next.backward - times.backward);
  times.weights += more * (next.weights - times.weights);
  return times;
}

/// Of one shard in an iteration: micro-batches of all replicas, then its update.
double Predictor::ShardSeconds(const DividedNet& net, int micro_batches, int place,
                               const std::vector<HostGroup>& groups) {
  const double rounds = static_cast<double>(micro_batches * work_.iter_size);
  double seconds = ModelOf(net, true, place).update;
  for (const HostGroup& group : groups) {
    if (group.replicas == 0) continue;
    const Times times = TimesOf(net, true, place, group.rows / micro_batches);
    seconds += rounds * group.hosts * group.replicas * (times.forward + times.backward + times.weights);
  }
  return seconds;
}

bool Predictor::ShareRows(const DividedNet& net, int micro_batches, std::vector<HostGroup>* groups) {
  const int replicas = Count(*groups, &HostGroup::replicas);
  const double batch = static_cast<double>(work_.batch);
  for (HostGroup& group : *groups) group.rows = group.replicas == 0 ? 0 : work_.per_replica ? batch : batch / replicas;
  if (!work_.per_replica) {
    // Samples in a second of each replica, and seconds of a batch that its shard takes.
    std::vector<double> speed(groups->size()), busy(groups->size());
    double speeds = 0, work = batch;
    for (size_t g = 0; g < groups->size(); ++g) {
      const HostGroup& group = (*groups)[g];
      if (group.replicas == 0) continue;
      const Times times = TimesOf(net, false, group.place, group.rows / micro_batches);
      speed[g] = group.rows / (micro_batches * (times.forward + times.backward + times.weights));
      if (group.beside) {
        busy[g] = ShardSeconds(net, micro_batches, group.place, *groups) / static_cast<double>(work_.iter_size);
      }
      speeds += group.hosts * group.replicas * speed[g];
      work += group.hosts * group.replicas * speed[g] * busy[g];
    }
    for (size_t g = 0; g < groups->size(); ++g) {
      if ((*groups)[g].replicas > 0) (*groups)[g].rows = speed[g] * (work / speeds - busy[g]);
    }
  }
  return std::all_of(groups->begin(), groups->end(), [micro_batches](const HostGroup& group) {
    return group.replicas == 0 || group.rows >= micro_batches * (1 - 1e-9);
  });
}

void Predictor::AddLinks(const DividedNet& net, const std::vector<HostGroup>& groups, Prediction* prediction) const {
  const NetTraffic& traffic = net.traffic();
  const double updates = static_cast<double>(work_.iter_size), batch = RowsOfBatch(groups);
  const int replicas = Count(groups, &HostGroup::replicas), shards = Count(groups, &HostGroup::shards);
  const int servers = Count(groups, &HostGroup::servers);
  int conv_hosts = 0;
  for (const HostGroup& group : groups) conv_hosts += group.replicas > 0 ? group.hosts : 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const HostGroup& group = groups[g];
    HostLoad& load = prediction->loads[g];
    const double own = group.replicas * group.rows;
    // What stays on the host crosses no link: replicas beside shards, and shards beside each other.
    const double away = shards > 0 ? 1.0 - 1.0 * group.shards / shards : 0;
    const double others = shards > 1 ? 1.0 * (shards - group.shards) / (shards - 1) : 0;
    load.out = updates * (own * traffic.replica_out * away + group.shards * (batch - own) * traffic.shard_out +
                          group.shards * batch * traffic.inner_out * others);
    load.in = updates * (own * traffic.replica_in * away + group.shards * (batch - own) * traffic.shard_in +
                         group.shards * batch * traffic.inner_in * others);
    if (servers > 0) {
      load.exchanged = traffic.exchanged * (group.replicas + 1.0 * group.servers * replicas / servers);
    } else if (group.replicas > 0 && conv_hosts > 1) {
      load.exchanged = 2.0 * (replicas - 1) / replicas * traffic.exchanged * traffic.wire_share;
    }
    load.out += load.exchanged;
    load.in += load.exchanged;
  }
}

void Predictor::AddMemory(const DividedNet& net, int micro_batches, const std::vector<HostGroup>& groups,
                          Prediction* prediction) const {
  const int replicas = Count(groups, &HostGroup::replicas), servers = Count(groups, &HostGroup::servers);
  double most_rows = 0;
  for (const HostGroup& group : groups) most_rows = std::max(most_rows, group.rows / micro_batches);
  for (size_t g = 0; g < groups.size(); ++g) {
    const HostGroup& group = groups[g];
    HostLoad& load = prediction->loads[g];
    // Pools give way where memory is short, so that one solver is what a node can't do without.
    const double rounds = static_cast<double>(micro_batches * work_.iter_size);
    const auto memory = [&](int pool_of_replica, int pool_of_shard) {
      const double rows = std::ceil(group.rows / micro_batches - 1e-9);
      const double conv = group.replicas > 0 ? net.MemoryOf(net.replica(), rows, pool_of_replica, work_.histories) : 0;
      const double fc =
          group.shards > 0 ? net.MemoryOf(*net.shard(), std::ceil(most_rows), pool_of_shard, work_.histories) : 0;
      // Values, histories, sum, and the gradient of each replica.
      const double ps = group.servers > 0 ? (2.0 + work_.histories + replicas) * net.traffic().exchanged / servers : 0;
      load.node_memory = group.beside ? conv + fc : std::max({conv, fc, ps});
      load.memory = group.replicas * conv + group.shards * fc + group.servers * ps;
    };
    const HostPlace& place = hosts_->places[group.place];
    const bool on_host = place.device == "cpu";
    const double room = static_cast<double>(place.memory_bytes);
    const auto missing = [&] { return (on_host ? load.memory : load.node_memory) - room; };
    const int wanted = static_cast<int>(PoolOf(group.shards > 0, rounds, replicas));
    int pool = wanted;
    const auto replica_pool = [&] { return group.beside ? pool : std::min(pool, static_cast<int>(kConvPool)); };
    memory(replica_pool(), pool);
    while (missing() > 0 && pool > 1) {
      pool = std::max(1, pool * 3 / 4);
      memory(replica_pool(), pool);
    }
    if (missing() > prediction->missing) {
      prediction->missing = missing();
      prediction->short_of_memory = static_cast<int>(g);
    }
    if (group.replicas + group.shards == 0) continue;
    const double depth = group.shards > 0 ? std::min(1.0 * pool / replicas, rounds) : pool;
    prediction->depth = std::min(prediction->depth, depth);
  }
}

/// Of the gradients of all replicas, where the slowest link sets the pace: by a ring; or to parameter servers, while
/// the new values of other layers come back.
double Predictor::ExchangeSeconds(const DividedNet& net, const std::vector<HostGroup>& groups) const {
  const int replicas = Count(groups, &HostGroup::replicas);
  if (replicas < 2 || net.traffic().exchanged == 0) return 0;
  double pace = 0, latency = 0;
  int conv_hosts = 0;
  for (const HostGroup& group : groups) conv_hosts += group.replicas > 0 ? group.hosts : 0;
  const int servers = Count(groups, &HostGroup::servers);
  if (servers > 0) {
    double seconds = 0;
    for (const HostGroup& group : groups) {
      const double parts = std::max<double>(group.replicas, 1.0 * group.servers * replicas / servers);
      seconds = std::max(seconds, parts * net.traffic().exchanged / HostOf(group).link_bytes_per_second);
      latency = std::max(latency, HostOf(group).latency_s);
    }
    return seconds + 4 * latency;
  }
  for (const HostGroup& group : groups) {
    if (group.replicas == 0) continue;
    const double memory = hosts_->places[group.place].speed.bytes_per_second / 4;
    pace = std::max(pace, 1 / (conv_hosts > 1 ? HostOf(group).link_bytes_per_second : memory));
    if (conv_hosts > 1) latency = std::max(latency, HostOf(group).latency_s);
  }
  const int round = conv_hosts > 1 ? conv_hosts : replicas;  // hosts sum by themselves first
  const double steps = 2.0 * (round - 1);
  return steps / round * net.traffic().exchanged * net.traffic().wire_share * pace + steps * latency;
}

Prediction Predictor::Predict(const DividedNet& net, int micro_batches, const std::vector<HostGroup>& groups) {
  Prediction prediction;
  prediction.loads.resize(groups.size());
  const int replicas = Count(groups, &HostGroup::replicas), shards = Count(groups, &HostGroup::shards);
  const double rounds = static_cast<double>(micro_batches * work_.iter_size);
  prediction.samples = RowsOfBatch(groups) * static_cast<double>(work_.iter_size);
  AddLinks(net, groups, &prediction);
  AddMemory(net, micro_batches, groups, &prediction);
  const double exchange = ExchangeSeconds(net, groups);
  const int servers = Count(groups, &HostGroup::servers);
  // Of a round: the longest of what each kind of node does, and of what each link moves besides the exchange.
  double forward = 0, backward = 0, through = 0, send = 0, receive = 0, round = 0, update = 0, latency = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const HostGroup& group = groups[g];
    HostLoad& load = prediction.loads[g];
    double computes = 0, shard = 0;
    if (group.replicas > 0) {
      const Times times = TimesOf(net, false, group.place, group.rows / micro_batches);
      const double own = times.forward + times.backward + times.weights;
      forward = std::max(forward, times.forward);
      backward = std::max(backward, times.backward + times.weights);
      computes += own;
      const double own_update = servers > 0 ? 0 : ModelOf(net, false, group.place).update;
      load.replica_s = rounds * own + own_update;
      update = std::max(update, own_update);
    }
    if (group.shards > 0) {
      shard = ShardSeconds(net, micro_batches, group.place, groups);
      const double each = (shard - ModelOf(net, true, group.place).update) / rounds;
      computes = group.beside ? computes + each : std::max(computes, each);
      through = std::max(through, each);
      (group.beside ? load.replica_s : load.shard_s) += shard;
    }
    if (group.servers > 0) {
      // An update touches six numbers of each parameter, the sum of gradients one of each replica and its own.
      load.server_s =
          net.traffic().exchanged / servers * (replicas + 7) / hosts_->places[group.place].speed.bytes_per_second;
    }
    const double bandwidth = HostOf(group).link_bytes_per_second;
    const double out = (load.out - load.exchanged) / bandwidth / rounds;
    const double in = (load.in - load.exchanged) / bandwidth / rounds;
    send = std::max(send, out);
    receive = std::max(receive, in);
    round = std::max({round, computes, out, in});
    latency = std::max(latency, HostOf(group).latency_s);
    const double limits[] = {load.compute_s(), load.out / bandwidth, load.in / bandwidth};
    for (int resource = 0; resource < 3; ++resource) {
      if (limits[resource] <= prediction.limit) continue;
      prediction.limit = limits[resource];
      prediction.resource = static_cast<Prediction::Resource>(resource);
      prediction.busiest = static_cast<int>(g);
    }
  }
  double way = forward + backward;
  if (shards > 0) way += through + send + receive + (2 + net.hops()) * latency;
  round = std::max(round, way / std::max(prediction.depth, 1e-3));
  // Tasks of GPUs are not interrupted. Where shards lie beside replicas and an update has several rounds, shards wait
  // for passes of replicas on other nodes, which in turn wait for them: the simulator shows rounds of twice the way.
  const bool waits = std::any_of(groups.begin(), groups.end(), [this](const HostGroup& group) {
    return group.beside && hosts_->places[group.place].device != "cpu";
  });
  if (waits) round = std::max(round, 2 * way);
  // The exchange begins with the last backward pass, which hides some of it.
  const double shown = prediction.exchange_s = std::max(0.0, exchange - backward);
  prediction.seconds = std::max(way + (rounds - 1) * round + shown + update, prediction.limit);
  return prediction;
}

}  // namespace hp
