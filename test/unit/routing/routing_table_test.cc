#include "scheduler/plan/routing_table.h"

#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RoutingTableTest, KnowsStagesAndNodes) {
  const RoutingTable table = MakeTable(kTable);
  EXPECT_EQ(table.size(), 4);
  EXPECT_EQ(table.replicas(), 2);
  EXPECT_EQ(table.shards(1), 2);
  EXPECT_THAT(table.stage(1).ranks, ElementsAre(3, 2));
  EXPECT_EQ(table.rank_of(1, 0), 3);
  EXPECT_EQ(table.rank_of(0, 1), 1);
  EXPECT_STREQ(table.stage(0).role(), "conv");
  EXPECT_EQ(table.node(3).name, "fc0");
  EXPECT_EQ(table.node(3).role, "fc");
  EXPECT_EQ(table.node(3).threads, 3);
  EXPECT_EQ(table.node(2).address(), "a:29501");
  EXPECT_EQ(*table.FindNode("fc1"), 2);
  EXPECT_EQ(table.FindNode("fc2").status().message(),
            "/job/table.prototxt: no node \"fc2\"; expected one of conv0, conv1, fc1, fc0");
  EXPECT_EQ(table.solver_path(), "/job/solver.prototxt");
  EXPECT_EQ(table.TrainingBatch(8), 8);
  EXPECT_EQ(MakeTable(std::string(kTable) + "batch: PER_REPLICA").TrainingBatch(8), 16);
}

TEST(RoutingTableTest, StageOfLayersCoversBothPhases) {
  const RoutingTable table = MakeTable(kTable);
  const auto stages = table.StageOfLayers(Parse<caffe::NetParameter>(kNet));
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_THAT(*stages, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1));
}

TEST(RoutingTableTest, HashIsOfEverythingButTheSolversPath) {
  const uint64_t hash = MakeTable(kTable).hash();
  std::string text = kTable;
  EXPECT_EQ(MakeTable(text.replace(text.find("solver.prototxt"), 15, "/x/y.prototxt  ")).hash(), hash);
  EXPECT_NE(MakeTable(std::string(kTable) + "job: \"other\"").hash(), hash);
  text = kTable;
  EXPECT_NE(MakeTable(text.replace(text.find("threads: 3"), 10, "threads: 2")).hash(), hash);
  const uint64_t half = MakeTable(std::string(kTable) + "precision: FP16").hash();
  EXPECT_NE(half, hash);
  EXPECT_NE(MakeTable(std::string(kTable) + "precision: FP16 loss_scaling { initial: 2 }").hash(), half);
}

TEST(RoutingTableTest, TheFirstNodeOnAnotherHostCopiesSnapshots) {
  EXPECT_EQ(MakeTable(kTable).snapshot_copier(), -1);
  EXPECT_THAT(MakeTable(kTable).snapshot_writers(), ElementsAre(0));
  const RoutingTable copied = MakeTable(std::string(kTable) + "snapshot_copies: 2");
  EXPECT_EQ(copied.snapshot_copier(), 1);
  EXPECT_THAT(copied.snapshot_writers(), ElementsAre(0, 1));
  EXPECT_EQ(copied.division_hash(), MakeTable(kTable).division_hash());
}

/// Which GPU, pool or host it is changes no bit; whether it is a GPU, and how it multiplies, does.
TEST(RoutingTableTest, DivisionHashIsOfWhatDecidesBits) {
  RoutingTableConfig config = Parse<RoutingTableConfig>(kTable);
  const auto hash = [&config] { return RoutingTable::Create(config, "table").value().division_hash(); };
  const uint64_t plain = hash();
  config.mutable_node(0)->set_pool_size(3);
  EXPECT_EQ(hash(), plain);
  config.mutable_node(0)->set_device("cuda:0");
  const uint64_t gpu = hash();
  EXPECT_NE(gpu, plain);
  config.mutable_node(0)->set_device("cuda:5");
  EXPECT_EQ(hash(), gpu);
  config.set_convolution_engines(RoutingTableConfig::TIMED);
  EXPECT_NE(hash(), gpu);
  EXPECT_TRUE(RoutingTable::Create(config, "table").value().times_engines(0));
  EXPECT_FALSE(RoutingTable::Create(config, "table").value().times_engines(1)) << "on processors";
  config.set_convolution_engines(RoutingTableConfig::HEURISTIC);
  EXPECT_EQ(hash(), gpu) << "the default";
  EXPECT_FALSE(RoutingTable::Create(config, "table").value().times_engines(0));
  RoutingTableConfig decoding = Parse<RoutingTableConfig>(kTable);
  for (NodeConfig& node : *decoding.mutable_node()) node.set_device("cuda");
  const RoutingTable by_host = RoutingTable::Create(decoding, "table").value();
  EXPECT_FALSE(by_host.decodes_on_gpus());
  decoding.set_jpeg_decoder(RoutingTableConfig::HOST);
  EXPECT_EQ(RoutingTable::Create(decoding, "table").value().division_hash(), by_host.division_hash());
  decoding.set_jpeg_decoder(RoutingTableConfig::GPU);
  const RoutingTable by_gpus = RoutingTable::Create(decoding, "table").value();
  EXPECT_TRUE(by_gpus.decodes_on_gpus());
  EXPECT_NE(by_gpus.division_hash(), by_host.division_hash());
  config.set_precision(RoutingTableConfig::TF32);
  EXPECT_NE(hash(), gpu);
  config.set_precision(RoutingTableConfig::FP16);
  const uint64_t scaled = hash();
  EXPECT_NE(scaled, gpu);
  config.mutable_loss_scaling()->set_initial(65536);  // the default
  EXPECT_EQ(hash(), scaled);
  config.mutable_loss_scaling()->set_growth_interval(100);
  EXPECT_NE(hash(), scaled);
  const uint64_t on_wire = hash();
  config.set_wire_precision(RoutingTableConfig::FP32);
  EXPECT_EQ(hash(), on_wire);
  config.set_wire_precision(RoutingTableConfig::BF16);
  EXPECT_NE(hash(), on_wire);
  EXPECT_EQ(RoutingTable::Create(config, "table").value().DescribePrecision(config.precision()),
            "FP16, BF16 on the wire");
}

/// A split by inputs adds in another order, and so does a product over slices that were gathered.
TEST(RoutingTableTest, DivisionHashIsOfSplitsAndBoundaries) {
  const auto hash = [](const std::string& more) { return MakeTable(kTable + more).division_hash(); };
  const uint64_t plain = hash("");
  EXPECT_EQ(hash("split { layer: 'ip1' by: OUTPUTS }"), plain) << "as it is anyway";
  EXPECT_NE(hash("split { layer: 'ip1' by: INPUTS }"), plain);
  EXPECT_NE(hash("split { layer: 'ip1' by: INPUTS }"), hash("split { layer: 'ip1' by: NONE }"));
  EXPECT_EQ(hash("split { layer: 'ip1' by: INPUTS } split { layer: 'ip2' by: NONE }"),
            hash("split { layer: 'ip2' by: NONE } split { layer: 'ip1' by: INPUTS }"));
  RoutingTableConfig config = Parse<RoutingTableConfig>(kTable);
  config.mutable_stage(1)->set_boundary(StageConfig::DIRECT);
  EXPECT_EQ(RoutingTable::Create(config, "table").value().division_hash(), plain) << "the default";
  config.mutable_stage(1)->set_boundary(StageConfig::SCATTERED);
  EXPECT_NE(RoutingTable::Create(config, "table").value().division_hash(), plain);
}

/// Replicas of a host add their gradients before the hosts do.
TEST(RoutingTableTest, DivisionHashIsOfWhoSharesHosts) {
  std::string nodes;
  for (int i = 0; i < 4; ++i) {
    nodes += "node { name: 'c" + std::to_string(i) + "' stage: 0 index: " + std::to_string(i) + " host: 'HOST" +
             std::to_string(i) + "' port: " + std::to_string(i + 1) + " } ";
  }
  const auto table = [&](const std::vector<std::string>& hosts, const std::string& exchange = "",
                         const std::string& more = "") {
    RoutingTableConfig config =
        Parse<RoutingTableConfig>("solver: 's' stage { name: 'conv' kind: CONV " + exchange + " } " + nodes + more);
    for (int i = 0; i < 4; ++i) config.mutable_node(i)->set_host(hosts[i]);
    return RoutingTable::Create(config, "table").value();
  };
  const RoutingTable apart = table({"a", "b", "c", "d"}), shared = table({"b", "a", "b", "a"});
  EXPECT_FALSE(apart.stage(0).sums_within_hosts());
  EXPECT_TRUE(shared.stage(0).sums_within_hosts());
  EXPECT_THAT(shared.stage(0).host_of, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(shared.stage(0).hosts, 2);
  EXPECT_NE(shared.division_hash(), apart.division_hash());
  EXPECT_NE(table({"a", "a", "b", "b"}).division_hash(), shared.division_hash());
  EXPECT_EQ(table({"x", "y", "x", "y"}).division_hash(), shared.division_hash());
  EXPECT_EQ(table({"a", "a", "a", "a"}).division_hash(), apart.division_hash()) << "a ring, too";
  const RoutingTable served = table({"a", "a", "b", "b"}, "exchange: PARAMETER_SERVER",
                                    "stage { kind: PS serves: 'conv' } node { name: 'p' stage: 1 host: 'c' port: 9 }");
  EXPECT_FALSE(served.stage(0).sums_within_hosts());
}

/// Two communicators of one node could wait for each other.
TEST(RoutingTableTest, NcclSumsForOneStageOfANode) {
  const auto table = [](const std::string& parts) {
    const std::string stages =
        "solver: 's' stage { kind: CONV name: 'a' layer: 'c1' } stage { kind: CONV name: 'b' layer: 'c2' } "
        "stage { kind: FC name: 'f' layer: 'ip' } ";
    return RoutingTable::Create(Parse<RoutingTableConfig>(stages + parts), "table").value();
  };
  const RoutingTable apart = table(
      "node { name: 'x' stage: 2 host: 'h' port: 1 device: 'cuda:0' part { stage: 0 index: 1 } }"
      "node { name: 'y' stage: 0 index: 0 host: 'h' port: 2 device: 'cuda:1' }"
      "node { name: 'z' stage: 1 host: 'h' port: 3 device: 'cuda:2' }");
  EXPECT_TRUE(apart.stage(0).by_nccl);
  EXPECT_THAT(apart.ReplicasByNccl(0), ElementsAre(1, 0)) << "though the shard is named first";
  EXPECT_THAT(apart.ReplicasByNccl(2), ElementsAre()) << "alone";
  const RoutingTable both = table(
      "node { name: 'x' stage: 0 index: 0 host: 'h' port: 1 device: 'cuda:0' part { stage: 1 index: 0 } }"
      "node { name: 'y' stage: 0 index: 1 host: 'h' port: 2 device: 'cuda:1' part { stage: 1 index: 1 } }"
      "node { name: 'z' stage: 2 host: 'h' port: 3 device: 'cuda:2' }");
  EXPECT_FALSE(both.stage(0).by_nccl);
  EXPECT_FALSE(both.stage(1).by_nccl);
  EXPECT_THAT(both.ReplicasByNccl(0), ElementsAre());
}

/// NCCL and a ring add in orders of their own.
TEST(RoutingTableTest, TlsDecidesWhatSumsForGpus) {
  RoutingTableConfig config = Parse<RoutingTableConfig>(kTable);
  const auto table = [&config] { return RoutingTable::Create(config, "table").value(); };
  const uint64_t cpus = table().division_hash();
  EXPECT_FALSE(table().stage(0).by_nccl);
  config.mutable_transport()->set_tls(true);
  EXPECT_EQ(table().division_hash(), cpus) << "a ring in any case";
  config.clear_transport();
  for (int rank : {0, 1}) config.mutable_node(rank)->set_device("cuda:0");
  const uint64_t gpus = table().division_hash();
  EXPECT_TRUE(table().stage(0).by_nccl);
  EXPECT_FALSE(table().stage(1).by_nccl);
  config.mutable_transport()->set_tls(true);
  EXPECT_FALSE(table().stage(0).by_nccl);
  EXPECT_NE(table().division_hash(), gpus);
  config.mutable_transport()->set_clear(TransportConfig::ALLOWED);
  EXPECT_TRUE(table().stage(0).by_nccl);
  EXPECT_EQ(table().division_hash(), gpus);
  config.mutable_node()->DeleteSubrange(1, 1);
  const uint64_t alone = table().division_hash();
  config.mutable_transport()->clear_clear();
  EXPECT_EQ(table().division_hash(), alone) << "one replica sums with nobody";
}

TEST(RoutingTableTest, LoadNamesTheFileAndTheLine) {
  char path[] = "/tmp/hp_table_XXXXXX";
  close(mkstemp(path));
  std::ofstream(path) << "solver: \"s\"\nstage { kind: CONVV }\n";
  EXPECT_EQ(RoutingTable::Load(path).status().message(),
            std::string(path) + ":2:15: unknown value \"CONVV\" of field \"kind\"; expected one of CONV, FC, PS");
  std::ofstream(path) << kTable;
  EXPECT_TRUE(RoutingTable::Load(path).ok());
  std::ofstream(path) << "solver: \"s\"\nstage { kind: CONV }\n";
  EXPECT_THAT(RoutingTable::Load(path).status().message(), HasSubstr("2 faults:\n  the table has no node"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace hp
