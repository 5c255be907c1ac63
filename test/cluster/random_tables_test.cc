// The contract under tables that nobody chose: drawn from a printed seed, with everything that a table can say of how a
// net is divided. HPNODE_TABLES=N tries more of them, HPNODE_TABLES_SEED=S others.
#include "test/cluster/contract_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
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
    DrawStages(&spec);
    spec.micro_batches = Below(std::min(5, kSamples / spec.conv)) + 1;
    spec.pool_size = Below(4);
    spec.threads = Below(4) == 0 ? 2 : 1;
    spec.reader_threads = Below(3) + 1;
    spec.tcp = Below(3) == 0;
    spec.delay_seed = Below(2) == 0 ? random_() : 0;
    return spec;
  }

 private:
  /// Where a stage may begin, and the layer before it.
  struct Cut {
    const char *start, *end;
  };
  static constexpr Cut kCuts[] = {{"pool2", "relu2"}, {"ip1", "pool2"}, {"ip2", "drop1"}, {"ip3", "relu4"}};
  static constexpr int kCutCount = static_cast<int>(std::size(kCuts));

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }

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
    constexpr SplitConfig::By kBy[] = {SplitConfig::OUTPUTS, SplitConfig::INPUTS, SplitConfig::INPUTS,
                                       SplitConfig::NONE};
    for (int product = std::max(first, 1); product < kCutCount; ++product) {
      const SplitConfig::By by = kBy[Below(4)];
      if (by != SplitConfig::OUTPUTS) spec->splits[kCuts[product].start] = by;
    }
  }

  std::mt19937_64 random_;
};

class RandomTablesTest : public ContractTest {};

TEST_F(RandomTablesTest, ComputeWhatOneProcessDoes) {
  const int64_t seed = FromEnvironment("HPNODE_TABLES_SEED", 1), count = FromEnvironment("HPNODE_TABLES", 10);
  std::cout << count << " tables of seed " << seed << "\n";
  Drawing drawing(static_cast<uint64_t>(seed));
  std::vector<ClusterSpec> tables;
  for (int64_t i = 0; i < count; ++i) tables.push_back(drawing.Draw());
  for (const ClusterSpec& table : tables) std::cout << "  " << Describe(table) << "\n";
  Check(Solver(""), tables);
}

TEST_F(RandomTablesTest, GiveTheSameBitsTwice) {
  Drawing drawing(static_cast<uint64_t>(FromEnvironment("HPNODE_TABLES_SEED", 1)) + 1000);
  const std::string solver = Solver("", false, 6);
  for (int64_t i = 0; i < FromEnvironment("HPNODE_TABLES", 10) / 5; ++i) {
    ClusterSpec table = drawing.Draw();
    SCOPED_TRACE(Describe(table));
    table.delay_seed = 0;
    CheckSameBits(table, solver, {static_cast<uint64_t>(i) + 1});
  }
}

}  // namespace
}  // namespace hp::test
