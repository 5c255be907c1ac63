// The pipelines of a job whose tasks only wait: over TCP, one process for each node, or (--simulate) on simulated time.
// The job is made up, or (--routing) that of a table. pipeline_waits.py and planned_waits.py put both beside each
// other, on shaped links.
#include "base/pending_file.h"
#include "base/philox.h"
#include "proto/text.h"
#include "scheduler/simulator/planned_job.h"
#include "scheduler/simulator/simulation.h"
#include "scheduler/simulator/simulation_report.h"
#include "scheduler/simulator/simulation_trace.h"
#include "test/bench/waiting_node.h"
#include "test/unit/simulator/made_up_job.h"

#include <gflags/gflags.h>
#include <glog/logging.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

DEFINE_bool(simulate, false, "simulate the job instead of running a node of it");
DEFINE_string(trace, "", "with --simulate: file for a trace");
DEFINE_bool(tasks, false, "print when each task began");
DEFINE_bool(report, false, "with --simulate: print what nodes wait for, too");
DEFINE_int32(node, 0, "which node this process is");
DEFINE_string(addresses, "127.0.0.1,127.0.0.1,127.0.0.1", "of the nodes, by rank; equal ones are a host");
DEFINE_int32(port, 29700, "of the first node; the others use the next ones");
DEFINE_string(routing, "", "a table, whose job is run on --hosts; without parameter servers");
DEFINE_string(hosts, "", "with --routing: a hosts.prototxt, after which tasks take their time");
DEFINE_string(sample, "3,227,227", "with --routing: channels, height, width");
DEFINE_double(mbit, 1000, "with --simulate: 10^6 bits/s of a link, Ethernet headers included");
DEFINE_int32(latency_us, 100, "with --simulate: of a message, microseconds");
DEFINE_int32(replicas, 2, "nodes of the conv stage");
DEFINE_int32(shards, 1, "nodes of the FC stage; 0: none");
DEFINE_int32(micro_batches, 4, "of a replica");
DEFINE_int32(rows, 8, "samples of a micro-batch");
DEFINE_int32(row_kb, 32, "KiB of a tensor for each sample");
DEFINE_int32(pool, 4, "solvers of a replica; a shard has one for each of its ids, at most --shard_pool");
DEFINE_int32(shard_pool, 1000, "solvers of a shard, at most as many as ids that may be under way");
DEFINE_double(exchange_mb, 0.004, "10^6 bytes that replicas sum in each of two collectives");
// No multiples of each other: what would happen at one moment on simulated time does not anywhere else.
DEFINE_double(forward_ms, 41.3, "time of a forward pass");
DEFINE_double(backward_ms, 76.1, "time of a backward pass");
DEFINE_double(shard_ms, 34.7, "time of a forward or backward pass of a shard");
DEFINE_int32(clocks, 12, "iterations");
DEFINE_int32(staleness, 0, "iterations that a node may be ahead");
DEFINE_double(late_ms, 0, "time by which every fourth forward pass of a replica is late, at random");

namespace hp::test {
namespace {

constexpr int64_t kWarmUp = 2;
// Of 1514 bytes that a full frame has by tc's count, TCP's payload is 1448.
constexpr double kPayload = 1448.0 / 1514;

struct Waits : public TaskTimes {
  int64_t NsOf(Rank rank, const Task& task) const override {
    const bool shard = rank >= FLAGS_replicas;
    if (task.kind != Task::kForward && task.kind != Task::kBackward) return 0;
    double ms = shard ? FLAGS_shard_ms : task.kind == Task::kForward ? FLAGS_forward_ms : FLAGS_backward_ms;
    const bool late = Philox4x32(1, task.id.bits, static_cast<uint64_t>(rank))[0] % 4 == 0;
    if (!shard && task.kind == Task::kForward && late) ms += FLAGS_late_ms;
    return static_cast<int64_t>(ms * kNsPerMs);
  }
};

std::vector<std::string> Addresses() {
  std::vector<std::string> addresses;
  std::stringstream list(FLAGS_addresses);
  for (std::string address; std::getline(list, address, ',');) addresses.push_back(address);
  return addresses;
}

SimulatedJob MakeJob() {
  JobSpec spec = FLAGS_shards > 0 ? OneFcStage(FLAGS_replicas, FLAGS_shards, false) : NoFcStage(FLAGS_replicas);
  spec.staleness = FLAGS_staleness;
  spec.shape = TrainingShape(FLAGS_replicas, FLAGS_micro_batches, FLAGS_clocks, FLAGS_rows);
  SimulatedJob job = SimulatedJobOf(spec, FLAGS_mbit * 1e6 / 8 * kPayload, int64_t{FLAGS_row_kb} << 10);
  std::map<std::string, int> hosts;
  const std::vector<std::string> addresses = Addresses();
  CHECK_EQ(addresses.size(), job.nodes.size()) << "--addresses";
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    job.nodes[rank].host = hosts.try_emplace(addresses[rank], static_cast<int>(hosts.size())).first->second;
    job.nodes[rank].plan.pool_size =
        static_cast<int>(rank) < FLAGS_replicas
            ? FLAGS_pool
            : std::min(FLAGS_shard_pool, FLAGS_replicas * FLAGS_micro_batches * (FLAGS_staleness + 1));
  }
  job.hosts.resize(hosts.size());
  for (SimulatedHost& host : job.hosts) host.latency_ns = FLAGS_latency_us * 1000, host.local_latency_ns = 50'000;
  if (FLAGS_replicas > 1) {
    const auto bytes = static_cast<int64_t>(FLAGS_exchange_mb * 1e6) / 4 * 4;
    SimulatedExchange exchange;
    exchange.ranks = spec.ranks_of(0);
    exchange.collectives = {{bytes, 256 << 10}, {bytes, 256 << 10}};
    exchange.groups.assign(FLAGS_replicas, {1, 0});
    exchange.collectives_of = {{0}, {1}};
    job.exchanges.push_back(exchange);
  }
  return job;
}

int RunOrSimulate(WaitingJob job) {
  job.addresses = Addresses();
  job.port = FLAGS_port;
  job.warm_up = kWarmUp;
  job.print_tasks = FLAGS_tasks;
  if (!FLAGS_simulate) {
    std::printf("%.2f images/s\n", RunWaitingNode(job, FLAGS_node));
    return 0;
  }
  SimulationTrace trace;
  const StatusOr<SimulationResult> result =
      Simulate(job.job, *job.times, {.warm_up = kWarmUp, .trace = FLAGS_trace.empty() ? nullptr : &trace});
  CHECK(result.ok()) << result.status();
  if (!FLAGS_trace.empty()) {
    std::vector<std::string> names;
    for (const SimulatedJob::Node& node : job.job.nodes) names.push_back(node.name);
    CHECK(WriteWholeFile(FLAGS_trace, trace.Json(names)).ok());
  }
  std::printf("%.2f images/s\n", result->samples_per_s());
  if (FLAGS_report) std::printf("%s", DescribeSimulation(job.job, *result).c_str());
  return 0;
}

int RunMadeUp() {
  const Waits times;
  WaitingJob job{MakeJob(), &times, {}};
  for (const SimulatedExchange& exchange : job.job.exchanges) {
    std::vector<size_t>& gradients = job.gradients.emplace_back();
    for (const SimulatedExchange::Collective& collective : exchange.collectives) {
      gradients.push_back(static_cast<size_t>(collective.bytes));
    }
  }
  return RunOrSimulate(std::move(job));
}

Shape SampleOfFlag() {
  int64_t channels = 0, height = 0, width = 0;
  char comma = ',';
  CHECK(std::stringstream(FLAGS_sample) >> channels >> comma >> height >> comma >> width) << "--sample";
  return Shape{channels, height, width};
}

/// The gradients of each group of an exchange, in its order.
std::vector<size_t> GradientsOf(const JobPlan& plan, const SimulatedExchange& exchange) {
  std::vector<size_t> gradients;
  const PipelinePlan pipeline = plan.pipeline(exchange.ranks[0]);
  for (const int group : exchange.groups[0]) {
    size_t& bytes = gradients.emplace_back();
    for (const ParamPlan& param : plan.node(exchange.ranks[0], caffe::TRAIN).params()) {
      const bool in_group = param.graph_layer == pipeline.groups[group].layer && param.spec.lr_mult != 0;
      if (in_group) bytes += static_cast<size_t>(param.block.count()) * sizeof(float);
    }
  }
  return gradients;
}

int RunTable() {
  const auto table = RoutingTable::Load(FLAGS_routing);
  CHECK(table.ok()) << table.status();
  const auto solver = ReadSolver(table->solver_path());
  CHECK(solver.ok()) << solver.status();
  auto net = NetOfSolver(*solver);
  CHECK(net.ok()) << net.status();
  JobPlan::Options options;
  options.table = &*table;
  options.solver = *solver;
  options.solver.clear_test_iter();
  options.net = std::make_shared<const caffe::NetParameter>(*std::move(net));
  options.samples = {SampleOfFlag()};
  const auto plan = JobPlan::Create(options);
  CHECK(plan.ok()) << plan.status();
  const auto hosts = ReadHosts(FLAGS_hosts);
  CHECK(hosts.ok()) << hosts.status();
  const auto places = PlacesOfNodes(*table, *hosts);
  CHECK(places.ok()) << places.status();
  const PlannedTimes times(**plan, *hosts, *places);
  WaitingJob job{SimulatedJobOf(**plan, *hosts, *places, FLAGS_clocks), &times, {}};
  for (const SimulatedExchange& exchange : job.job.exchanges) job.gradients.push_back(GradientsOf(**plan, exchange));
  return RunOrSimulate(std::move(job));
}

}  // namespace

int Main() { return FLAGS_routing.empty() ? RunMadeUp() : RunTable(); }

}  // namespace hp::test

int main(int argc, char** argv) {
  gflags::SetUsageMessage("runs a node of a job whose tasks only wait, or simulates the job; see pipeline_waits.py");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return hp::test::Main();
}
