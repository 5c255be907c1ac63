#include "test/support/local_cluster.h"

#include "base/philox.h"
#include "commands/launch.h"
#include "data/db_writer.h"
#include "scheduler/plan/routing_table.h"
#include "test/support/small_job.h"
#include "transport/connect/tcp_listener.h"
#include "transport/tcp/tcp_transport.h"

#include "glog/logging.h"
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace hp::test {

TempFolder::TempFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "hpnode-test-XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  CHECK(std::filesystem::exists(path)) << path;
}

void WriteRandomImages(const std::string& path, int records, int channels, int size, int classes, uint64_t seed) {
  auto writer = DbWriter::Create(path, DbBackend::kLevelDb);
  CHECK(writer.ok()) << writer.status();
  const int pixels = channels * size * size;
  for (int r = 0; r < records; ++r) {
    caffe::Datum datum;
    datum.set_channels(channels);
    datum.set_height(size);
    datum.set_width(size);
    const int label = static_cast<int>(Philox4x32(seed, 1, r)[0] % classes);
    datum.set_label(label);
    std::string data(pixels, '\0');
    for (int i = 0; i < pixels; ++i) {
      const uint32_t mean = Philox4x32(seed, 2, label * pixels + i)[0] % 160;
      data[i] = static_cast<char>(mean + Philox4x32(seed, 3 + r, i)[0] % 90);
    }
    datum.set_data(data);
    char key[16];
    snprintf(key, sizeof(key), "%08d", r);
    const Status status = (*writer)->Put(key, datum.SerializeAsString());
    CHECK(status.ok()) << status;
  }
  const Status status = (*writer)->Finish();
  CHECK(status.ok()) << status;
}

namespace {

std::string DeviceOf(const ClusterSpec& spec, Rank rank) { return spec.device_of ? spec.device_of(rank) : spec.device; }

}  // namespace

RoutingTableConfig MakeTable(const ClusterSpec& spec, const std::string& solver_path) {
  RoutingTableConfig config;
  config.set_solver(solver_path);
  config.set_micro_batches(spec.micro_batches);
  if (spec.staleness != 0) config.set_staleness(spec.staleness);
  config.set_precision(spec.precision);
  if (spec.wire_precision != RoutingTableConfig::FP32) config.set_wire_precision(spec.wire_precision);
  if (spec.jpeg_decoder != RoutingTableConfig::HOST) config.set_jpeg_decoder(spec.jpeg_decoder);
  config.mutable_transport()->set_device_copies(spec.device_copies);
  if (spec.open_timed_device) config.set_convolution_engines(RoutingTableConfig::TIMED);
  if (spec.loss_scaling) *config.mutable_loss_scaling() = *spec.loss_scaling;
  auto add_stage = [&](const std::string& name, int stage, int parts, StageConfig::Kind kind,
                       const std::vector<Rank>& on = {}) {
    StageConfig* entry = config.add_stage();
    entry->set_name(name);
    entry->set_kind(kind);
    for (int part = 0; part < static_cast<int>(on.size()); ++part) {
      PartConfig* more = config.mutable_node(on[part])->add_part();
      more->set_stage(stage);
      more->set_index(part);
    }
    for (int part = static_cast<int>(on.size()); part < parts; ++part) {
      NodeConfig* node = config.add_node();
      node->set_name(name + std::to_string(part));
      node->set_stage(stage);
      node->set_index(part);
      node->set_host(spec.hosts.empty() ? "127.0.0.1" : spec.hosts[(config.node_size() - 1) % spec.hosts.size()]);
      node->set_port(20000 + config.node_size());
      node->set_pool_size(spec.pool_size);
      node->set_threads(spec.threads);
      node->set_device(DeviceOf(spec, config.node_size() - 1));
      if (stage == 0 && !spec.shares.empty()) node->set_share(spec.shares[part]);
    }
    return entry;
  };
  for (const auto& [layer, by] : spec.splits) {
    SplitConfig* split = config.add_split();
    split->set_layer(layer);
    split->set_by(by);
  }
  const auto add_servers = [&] {
    for (const auto& [stage, servers] : spec.ps) {
      StageConfig* const served = config.mutable_stage(stage);
      served->set_exchange(StageConfig::PARAMETER_SERVER);
      add_stage("ps" + std::to_string(stage) + "_", config.stage_size(), servers, StageConfig::PS)
          ->set_serves(config.stage(stage).name());
    }
  };
  for (size_t s = 0; s < spec.stages.size(); ++s) {
    const StageConfig given = Parse<StageConfig>(spec.stages[s].config);
    add_stage("stage" + std::to_string(s) + "_", static_cast<int>(s), spec.stages[s].parts, given.kind(),
              spec.stages[s].on)
        ->MergeFrom(given);
  }
  if (!spec.stages.empty()) {
    add_servers();
    return config;
  }
  add_stage("conv", 0, spec.conv, StageConfig::CONV);
  for (size_t s = 0; s < spec.fc.size(); ++s) {
    StageConfig* stage =
        add_stage("fc" + std::to_string(s) + "_", static_cast<int>(s) + 1, spec.fc[s], StageConfig::FC);
    stage->set_from_layer(spec.fc_starts[s]);
    if (spec.scattered) stage->set_boundary(StageConfig::SCATTERED);
  }
  for (size_t s = 0; s < spec.fc.size(); ++s) config.mutable_stage(static_cast<int>(s))->set_to_layer(spec.ends[s]);
  add_servers();
  return config;
}

namespace {

/// Sleeps up to 2 ms before a task, a different time for each (seed, node, task). Delays are what the test is about.
void DelayTask(const ClusterSpec& spec, Rank rank, const Task& task) {
  const uint64_t seed = spec.delay_seed;
  const uint32_t draw = Philox4x32(seed, task.id.bits, rank * 1000 + task.kind * 10 + task.segment)[0];
  const timespec pause{0, static_cast<long>(draw % static_cast<uint32_t>(spec.delay_us)) * 1000};
  nanosleep(&pause, nullptr);
}

/// Puts parameters together from all nodes. Those that several nodes have must be the same to the bit.
class Collector {
 public:
  void Add(const ParamStore& store, Rank rank) {
    for (int i = 0; i < store.size(); ++i) {
      const StoredParam& param = store.param(i);
      std::vector<float> block(store.count(i));
      const Status status = store.ReadValues(i, block);
      CHECK(status.ok()) << status;
      std::vector<float>& whole = params_[param.name()];
      std::vector<float>& found = found_[param.name()];
      whole.resize(param.whole.count());
      found.resize(param.whole.count());
      const std::vector<float> others = whole, of_others = found;
      PlaceBlock(block, param.block, param.whole, whole);
      PlaceBlock(std::vector<float>(block.size(), 1), param.block, param.whole, found);
      for (size_t at = 0; at < whole.size(); ++at) {
        if (of_others[at] == 0 || std::bit_cast<uint32_t>(whole[at]) == std::bit_cast<uint32_t>(others[at])) continue;
        ADD_FAILURE() << param.name() << "[" << at << "] is " << whole[at] << " on node " << rank << ", and "
                      << others[at] << " on an earlier one";
        break;
      }
    }
  }
  std::map<std::string, std::vector<float>> Take() { return std::move(params_); }

 private:
  std::map<std::string, std::vector<float>> params_, found_;  // found: 1 where a value has been put
};

}  // namespace

ClusterResult TrainCluster(const ClusterSpec& spec, const std::string& solver_path) {
  ClusterResult result;
  RoutingTableConfig config = MakeTable(spec, solver_path);
  std::vector<std::unique_ptr<TcpListener>> listeners;
  for (NodeConfig& node : *config.mutable_node()) {
    if (!spec.tcp) break;
    auto listener = TcpListener::Bind("127.0.0.1", 0);
    CHECK(listener.ok()) << listener.status();
    node.set_port((*listener)->port());
    listeners.push_back(*std::move(listener));
  }
  auto table = RoutingTable::Create(config, solver_path + ".table");
  if (!table.ok()) {
    result.status = table.status();
    return result;
  }
  Mutex mutex;
  Collector collector;
  auto options_for = [&](Rank rank) {
    NodeOptions options;
    options.table = &*table;
    options.rank = rank;
    options.cache_dir = "none";
    options.resume = spec.resume;
    options.weights = spec.weights;
    options.reader_threads = spec.reader_threads;
    options.layer_types = spec.layer_types;
    options.op_factories = spec.op_factories;
    if (spec.open_device || spec.open_timed_device) {
      options.open_device = [&spec, rank](const std::string& name, Precision precision, EngineChoices* engines) {
        CHECK(name == DeviceOf(spec, rank) && precision == spec.precision);
        return spec.open_timed_device ? spec.open_timed_device(rank, engines) : spec.open_device(rank);
      };
    }
    options.on_loss = [&](int64_t clock, double loss) {
      MutexLock lock(&mutex);
      result.losses[clock] = loss;
      if (spec.on_loss) spec.on_loss(clock);
    };
    options.on_done = [&, rank](const ParamStore& store) {
      MutexLock lock(&mutex);
      collector.Add(store, rank);
    };
    if (spec.before_task) {
      options.before_task = [&spec, rank](const Task& task) { spec.before_task(rank, task); };
    } else if (spec.delay_seed != 0) {
      options.before_task = [&spec, rank](const Task& task) { DelayTask(spec, rank, task); };
    }
    return options;
  };
  if (!spec.tcp) {
    InprocOptions network;
    if (spec.delay_seed != 0) network.delay = RandomDelays(spec.delay_seed, spec.delay_us);
    result.status = RunAllNodes(*table, options_for, network);
    result.params = collector.Take();
    return result;
  }
  result.status = RunNodes(table->size(), [&](Rank rank) {
    NodeOptions options = options_for(rank);
    if (spec.least_host_copy) options.least_host_copy = *spec.least_host_copy;
    options.transport = MakeTcpTransport(ConnectOptionsFor(*table, rank), std::move(listeners[rank]));
    return options;
  });
  result.params = collector.Take();
  return result;
}

double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b) {
  CHECK_EQ(a.size(), b.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    if (!std::isfinite(a[i])) return INFINITY;
  }
  return largest == 0 ? difference : difference / largest;
}

}  // namespace hp::test
