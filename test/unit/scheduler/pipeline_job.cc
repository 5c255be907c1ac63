#include "test/unit/scheduler/pipeline_job.h"

#include <algorithm>
#include <numeric>

namespace hp::test {

int JobSpec::nodes() const {
  return std::accumulate(stages.begin(), stages.end(), 0, [](int sum, const StageSpec& s) { return sum + s.parts; });
}

int JobSpec::stage_of(Rank rank) const {
  int stage = 0;
  for (; rank >= stages[stage].parts; ++stage) rank -= stages[stage].parts;
  return stage;
}

int JobSpec::part_of(Rank rank) const { return rank - ranks_of(stage_of(rank)).front(); }

std::vector<Rank> JobSpec::ranks_of(int stage) const {
  int first = 0;
  for (int s = 0; s < stage; ++s) first += stages[s].parts;
  std::vector<Rank> ranks(stages[stage].parts);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

PipelinePlan JobSpec::PlanOf(Rank rank) const {
  const int stage = stage_of(rank), part = part_of(rank);
  PipelinePlan plan;
  PhasePlan train;
  auto add = [&](int edge, bool gradient, bool landing, int segment, const std::vector<Rank>& peers) {
    train.ports.push_back({.channel = static_cast<uint32_t>(edge * 2 + (gradient ? 1 : 0)),
                           .landing = landing,
                           .gradient = gradient,
                           .segment = segment,
                           .peers = peers});
    train.segments = std::max(train.segments, segment + 1);
  };
  for (int e = 0; e < static_cast<int>(edges.size()); ++e) {
    const EdgeSpec& edge = edges[e];
    const std::vector<Rank> writers = ranks_of(edge.from), readers = ranks_of(edge.to);
    const bool to_conv = stages[edge.to].conv;
    const int reader_count = edge.lead || to_conv ? 1 : static_cast<int>(readers.size());
    if (stage == edge.from && (stages[stage].conv || edge.sliced || part == 0)) {
      for (int r = 0; r < reader_count; ++r) {
        if (!to_conv && readers[r] == rank) continue;
        const std::vector<Rank> peers = to_conv ? readers : std::vector<Rank>{readers[r]};
        add(e, false, false, edge.from_segment, peers);
        if (edge.gradient) add(e, true, true, edge.from_segment, peers);
      }
    }
    if (stage != edge.to || (!to_conv && part >= reader_count)) continue;
    const bool from_conv = stages[edge.from].conv;
    const int landings = from_conv || !edge.sliced ? 1 : static_cast<int>(writers.size());
    for (int w = 0; w < landings; ++w) {
      if (!from_conv && writers[w] == rank) continue;
      const std::vector<Rank> peers = from_conv ? writers : std::vector<Rank>{writers[w]};
      add(e, false, true, edge.to_segment, peers);
      if (edge.gradient) add(e, true, false, edge.to_segment, peers);
    }
  }
  plan.groups = stages[stage].groups;
  for (ParamGroupPlan& group : plan.groups) {
    group.stage = stage;
    if (group.in_backward && stages[stage].parts > 1) group.exchange = GroupExchange::kSum;
    if (stages[stage].served >= 0) {
      group.exchange = stages[stage].server() ? GroupExchange::kServe : GroupExchange::kPush;
    }
    if (staleness > 0 && !stages[stage].server()) group.deferred = false;
  }
  for (const ParamGroupPlan& group : plan.groups) train.segments = std::max(train.segments, group.segment + 1);
  if (urgent && !stages[stage].conv) {
    train.urgent.assign(static_cast<size_t>(train.segments), true);
    train.urgent[0] = false;
  }
  PhasePlan test = train;
  std::erase_if(test.ports, [](const PortPlan& port) { return port.gradient; });
  train.backward.assign(train.segments, false);
  test.backward = train.backward;
  for (const PortPlan& port : train.ports) train.backward[port.segment] = train.backward[port.segment] || port.gradient;
  for (const ParamGroupPlan& group : plan.groups) {
    train.backward[group.segment] = true;
    plan.ordered_backward |= group.in_backward;
    const int last = shares && stage == 0 ? train.segments - 1 : group.segment;
    for (int segment = group.segment; segment <= last; ++segment) train.backward[segment] = true;
    train.groups.push_back({group.segment, last});
  }
  plan.phases = {{train}, {test}};
  plan.replicas = stages[0].parts;
  if (stages[stage].conv) plan.share = {stages[stage].parts, part};
  if (stages[stage].server()) plan.share = IdShare(std::vector<int>{-1});
  plan.staleness = staleness;
  plan.pool_size = pool_size;
  plan.wait_for_verdict = wait_for_verdict;
  plan.updates_together = updates_together;
  return plan;
}

int64_t JobSpec::last_clock() const {
  return stop_after ? std::min(*stop_after + staleness + 2, shape.max_iter) : shape.max_iter;
}

namespace {

ParamGroupPlan InBackward(int segment = 0) { return {.segment = segment, .in_backward = true}; }
ParamGroupPlan AtOnce(int segment) { return {.segment = segment}; }
ParamGroupPlan Deferred(int segment) { return {.segment = segment, .deferred = true}; }

StageSpec Conv(int replicas, bool frozen) {
  return {true, replicas,
          frozen ? std::vector<ParamGroupPlan>() : std::vector<ParamGroupPlan>{InBackward(), InBackward()}};
}

}  // namespace

JobSpec OneFcStage(int replicas, int shards, bool frozen) {
  JobSpec job;
  job.name = "conv " + std::to_string(replicas) + " fc " + std::to_string(shards) + (frozen ? " frozen" : "");
  if (shards == 1) {
    job.stages = {Conv(replicas, frozen), {false, 1, {AtOnce(0), Deferred(0), AtOnce(0)}}};
    job.edges = {{.to = 1, .gradient = !frozen}};
    return job;
  }
  job.stages = {Conv(replicas, frozen), {false, shards, {AtOnce(0), Deferred(1), AtOnce(1)}}};
  job.edges = {{.to = 1, .gradient = !frozen},
               {.from = 1, .to = 1, .to_segment = 1, .sliced = true},
               {.from = 1, .from_segment = 1, .to = 1, .to_segment = 2, .sliced = true, .lead = true}};
  return job;
}

JobSpec TwoFcStages(int replicas, int first, int second, bool frozen, bool skip) {
  JobSpec job;
  job.name = "conv " + std::to_string(replicas) + " fc " + std::to_string(first) + "," + std::to_string(second) +
             (frozen ? " frozen" : "") + (skip ? " skip" : "");
  job.stages = {Conv(replicas, frozen),
                {false, first, {AtOnce(0), AtOnce(1)}},
                {false, second, {Deferred(0), AtOnce(0), AtOnce(1)}}};
  job.edges = {{.to = 1, .gradient = !frozen},
               {.from = 1, .to = 1, .to_segment = 1, .sliced = true},
               {.from = 1, .from_segment = 1, .to = 2, .sliced = true},
               {.from = 2, .to = 2, .to_segment = 1, .sliced = true},
               {.from = 2, .from_segment = 1, .to = 2, .to_segment = 2, .sliced = true, .lead = true}};
  if (skip) {
    job.edges.push_back({.to = 1, .to_segment = 1, .gradient = !frozen});
    job.edges.push_back({.to = 2, .to_segment = 1, .gradient = !frozen});
    // Sent early, needed late; made late, needed at once.
    job.edges.push_back({.from = 1, .to = 2, .to_segment = 2, .sliced = true, .lead = true});
  }
  return job;
}

JobSpec ThereAndBack(int replicas, int behind, int shards) {
  JobSpec job;
  job.name =
      "conv " + std::to_string(replicas) + "," + std::to_string(behind) + " fc " + std::to_string(shards) + " and back";
  job.stages = {{true, replicas, {InBackward(0), InBackward(1)}},
                {true, behind, {InBackward(0), InBackward(0)}},
                {false, shards, {AtOnce(0), Deferred(0)}}};
  job.edges = {{.to = 1},
               {.from = 1, .to = 2},
               {.from = 2, .to = 0, .to_segment = 1, .sliced = true},
               {.from = 1, .to = 0, .to_segment = 1}};
  return job;
}

JobSpec NoFcStage(int replicas) {
  JobSpec job;
  job.name = "conv " + std::to_string(replicas);
  job.stages = {Conv(replicas, false)};
  if (replicas == 1) job.stages[0].groups.push_back(Deferred(0));
  return job;
}

JobSpec Served(JobSpec job, int servers) {
  job.name += " served by " + std::to_string(servers);
  const int stage = static_cast<int>(job.stages.size());
  job.stages[0].served = stage;
  StageSpec server{.conv = false, .parts = servers, .groups = job.stages[0].groups, .served = 0};
  for (ParamGroupPlan& group : server.groups) group = {.deferred = true};
  job.stages.push_back(std::move(server));
  return job;
}

JobShape UnevenShape(int replicas, int micro_batches, int64_t max_iter) {
  JobShape shape;
  shape.replicas = replicas;
  shape.micro_batches = micro_batches;
  shape.train_batch = int64_t{replicas} * micro_batches + 1;
  // One id of each batch of a test does not exist.
  shape.tests = {{2, std::max<int64_t>(1, int64_t{replicas} * micro_batches - 1)}};
  shape.iter_size = 2;
  shape.test_interval = 2;
  shape.max_iter = max_iter;
  return shape;
}

std::string Lines(const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(lines.size(), 6); ++i) text += lines[i] + "\n";
  return text;
}

}  // namespace hp::test
