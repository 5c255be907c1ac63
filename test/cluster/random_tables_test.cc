// The contract under tables that nobody chose: drawn from a printed seed, with everything that a table can say of how a
// net is divided. HPNODE_TABLES=N tries more of them, HPNODE_TABLES_SEED=S others.
#include "scheduler/plan/table_check.h"
#include "test/cluster/contract_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>

namespace hp::test {
namespace {

constexpr int kSamples = 11;  // of a batch of the fixture's net

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// Draws tables. The numbers are the engine's own, so a seed means the same tables with every standard library.
class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random_(seed) {}

  ClusterSpec Draw() {
    ClusterSpec spec;
    spec.conv = Below(3) + 1;
    spec.micro_batches = Below(std::min(5, kSamples / spec.conv)) + 1;
    if (Below(3) == 0) DrawShares(&spec);
    if (Below(3) == 0) {
      DrawSets(&spec);
    } else {
      DrawStages(&spec);
    }
    if (Below(3) == 0) DrawServers(&spec);
    spec.pool_size = Below(4);
    spec.threads = Below(4) == 0 ? 2 : 1;
    spec.reader_threads = Below(3) + 1;
    spec.tcp = Below(3) == 0;
    spec.delay_seed = Below(2) == 0 ? random_() : 0;
    if (!spec.tcp) DrawHosts(&spec);
    return spec;
  }

 private:
  /// Which nodes share hosts decides how replicas sum.
  void DrawHosts(ClusterSpec* spec) {
    for (int node = Below(6); node > 0; --node) spec->hosts.push_back("127.0.0." + std::to_string(Below(3) + 1));
  }
  /// Where a stage may begin, and the layer before it.
  struct Cut {
    const char *start, *end;
  };
  static constexpr Cut kCuts[] = {{"pool2", "relu2"}, {"ip1", "pool2"}, {"ip2", "drop1"}, {"ip3", "relu4"}};
  static constexpr int kCutCount = static_cast<int>(std::size(kCuts));

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }

  static constexpr Cut kAnywhere[] = {{"pool1", "relu1"}, {"conv2", "norm1"}, {"relu2", "conv2"},
                                      {"pool2", "relu2"}, {"ip1", "pool2"},   {"relu3", "ip1"},
                                      {"ip2", "drop1"},   {"ip3", "relu4"},   {"accuracy", "ip3"}};
  static constexpr int kAnywhereCount = static_cast<int>(std::size(kAnywhere)), kFirstOfShards = 3;

  static constexpr SplitConfig::By kBy[] = {SplitConfig::OUTPUTS, SplitConfig::INPUTS, SplitConfig::INPUTS,
                                            SplitConfig::NONE};

  /// Stages cut anywhere, conv or FC, and sometimes the loss back on the nodes that read the samples.
  void DrawSets(ClusterSpec* spec) {
    std::string text = "kind: CONV";
    int parts = spec->conv, begin = 0;
    for (int stages = Below(3) + 1; stages > 0 && begin < kAnywhereCount; --stages) {
      const int cut = begin + Below(kAnywhereCount - begin);
      spec->stages.push_back({text + " to_layer: '" + kAnywhere[cut].end + "'", parts});
      begin = cut + 1;
      const bool shards = cut >= kFirstOfShards && Below(3) > 0;
      text = std::string(shards ? "kind: FC" : "kind: CONV") + " from_layer: '" + kAnywhere[cut].start + "'";
      if (shards && Below(3) == 0) text += " boundary: SCATTERED";
      parts = shards ? 1 : ReplicasBeside(*spec);
      if (!shards || !std::string(kAnywhere[cut].start).starts_with("ip")) continue;
      parts = Below(5) + 1;
      if (Below(2) == 0) spec->splits[kAnywhere[cut].start] = kBy[Below(4)];
    }
    spec->stages.push_back({text, parts});
    for (size_t stage = 1; stage < spec->stages.size(); ++stage) {
      if (Below(3) == 0) PutOnOthers(spec, stage);
    }
    if (begin < kAnywhereCount && Below(2) == 0) spec->stages[0].config += " layer: 'loss' layer: 'accuracy'";
  }

  /// Parameter servers of the first stage, which learns something; the fixture's conv1 and conv2 have enough rows.
  void DrawServers(ClusterSpec* spec) { spec->ps[0] = Below(3) + 1; }

  /// Different parts of a batch, each with a sample for every micro-batch.
  void DrawShares(ClusterSpec* spec) {
    int all = 0, least = kSamples;
    for (int replica = 0; replica < spec->conv; ++replica) {
      spec->shares.push_back(Below(3) + 1);
      all += spec->shares.back();
      least = std::min(least, spec->shares.back());
    }
    if (kSamples * least < all * spec->micro_batches) spec->shares.clear();
  }

  /// Puts some of a stage's parts on nodes of earlier stages, if the table then has no fault.
  void PutOnOthers(ClusterSpec* spec, size_t stage) {
    Rank nodes = 0;
    for (size_t before = 0; before < stage; ++before) {
      nodes += spec->stages[before].parts - static_cast<int>(spec->stages[before].on.size());
    }
    std::vector<Rank> ranks(nodes);
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int i = nodes - 1; i > 0; --i) std::swap(ranks[i], ranks[Below(i + 1)]);
    const std::vector<ClusterStage> own = spec->stages;
    ranks.resize(std::min(nodes, Below(spec->stages[stage].parts) + 1));
    spec->stages[stage].on = ranks;
    // Stages behind this one have their nodes behind those that it has now.
    ClusterSpec until = *spec;
    until.stages.resize(stage + 1);
    if (!CheckStructure(MakeTable(until, "solver.prototxt")).empty()) spec->stages = own;
  }

  /// As many replicas as in the first stage, or a number that divides that, or that it divides.
  int ReplicasBeside(const ClusterSpec& spec) {
    std::vector<int> counts = {1, spec.conv, spec.conv};
    if (spec.micro_batches > 1) counts.push_back(2 * spec.conv);
    return counts[Below(static_cast<int>(counts.size()))];
  }

  void DrawStages(ClusterSpec* spec) {
    const int stages = Below(8) == 0 ? 0 : Below(2) + 1;
    int cut = -1, first = kCutCount;
    for (int stage = 0; stage < stages; ++stage) {
      const int left = stages - 1 - stage;  // stages that still need a cut behind this one
      const int before = cut;
      cut += 1 + Below(kCutCount - left - cut - 1);
      if (before == 0 && cut == 1) spec->fc.back() = 1;  // a pooling alone has nothing to divide
      first = std::min(first, cut);
      spec->fc_starts.push_back(kCuts[cut].start);
      spec->ends.push_back(kCuts[cut].end);
      spec->fc.push_back(Below(6) + 1);
    }
    spec->scattered = stages > 0 && Below(3) == 0;
    for (int product = std::max(first, 1); product < kCutCount; ++product) {
      const SplitConfig::By by = kBy[Below(4)];
      if (by != SplitConfig::OUTPUTS) spec->splits[kCuts[product].start] = by;
    }
  }

  std::mt19937_64 random_;
};

/// The fixture's head, one of cosines with a margin, and one that computes a sample of its classes.
struct Head {
  const char* name;
  NetHead head;
  bool by_inputs;   ///< its product may be split by INPUTS
  bool loss_apart;  ///< its loss may be in another stage than its product
};
const Head kHeads[] = {
    {"logits", {}, true, true},
    {"a margin",
     {"normalize: true bias_term: false num_output: 120", "margin_param { scale: 8 angle: 0.3 cosine: 0.1 }"},
     false,
     true},
    {"a sample", {"bias_term: false num_output: 120 sample_rate: 0.15", ""}, false, false},
    {"a sample with a margin",
     {"normalize: true bias_term: false num_output: 120 sample_rate: 0.1", "margin_param { scale: 8 angle: 0.3 }"},
     false,
     false},
};
constexpr int64_t kHeadCount = std::ssize(kHeads);

/// The table without what this head can't have.
ClusterSpec Fitting(const Head& head, ClusterSpec table) {
  if (!head.by_inputs && table.splits.contains("ip3") && table.splits.at("ip3") == SplitConfig::INPUTS) {
    table.splits.erase("ip3");
  }
  const std::string apart = " layer: 'loss' layer: 'accuracy'";
  if (!head.loss_apart && !table.stages.empty() && table.stages[0].config.ends_with(apart)) {
    table.stages[0].config.resize(table.stages[0].config.size() - apart.size());
  }
  if (!head.loss_apart && !table.stages.empty() &&
      table.stages.back().config.find("from_layer: 'accuracy'") != std::string::npos) {
    table.stages.pop_back();
    const std::string end = " to_layer: 'ip3'";
    std::string& config = table.stages.back().config;
    config.erase(config.find(end), end.size());
  }
  // Servers have no samples: they don't serve the stage that the head is in.
  if (!head.loss_apart && table.fc.empty() && table.stages.size() <= 1) table.ps.clear();
  return table;
}

class RandomTablesTest : public ContractTest {
 protected:
  static std::string SolverWith(const Head& head, int iterations) {
    return Solver("", false, iterations, 1, head.head);
  }
};

TEST_F(RandomTablesTest, ComputeWhatOneProcessDoes) {
  const int64_t seed = FromEnvironment("HPNODE_TABLES_SEED", 1), count = FromEnvironment("HPNODE_TABLES", 10);
  std::cout << count << " tables of seed " << seed << "\n";
  Drawing drawing(static_cast<uint64_t>(seed));
  std::vector<ClusterSpec> tables[kHeadCount];
  for (int64_t i = 0; i < count; ++i) {
    const Head& head = kHeads[i % kHeadCount];
    tables[i % kHeadCount].push_back(Fitting(head, drawing.Draw()));
    std::cout << "  " << Describe(tables[i % kHeadCount].back()) << ", " << head.name << "\n";
  }
  for (int64_t i = 0; i < kHeadCount; ++i) {
    SCOPED_TRACE(kHeads[i].name);
    Check(SolverWith(kHeads[i], 50), tables[i]);
  }
}

TEST_F(RandomTablesTest, GiveTheSameBitsTwice) {
  Drawing drawing(static_cast<uint64_t>(FromEnvironment("HPNODE_TABLES_SEED", 1)) + 1000);
  for (int64_t i = 0; i < FromEnvironment("HPNODE_TABLES", 10) / 5; ++i) {
    const Head& head = kHeads[i % kHeadCount];
    ClusterSpec table = Fitting(head, drawing.Draw());
    SCOPED_TRACE(Describe(table) + ", " + head.name);
    table.delay_seed = 0;
    CheckSameBits(table, SolverWith(head, 6), {static_cast<uint64_t>(i) + 1});
  }
}

}  // namespace
}  // namespace hp::test
