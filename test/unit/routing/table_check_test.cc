#include "scheduler/plan/table_check.h"

#include "base/format.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// `text` with the first `what` replaced.
std::string With(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

std::vector<std::string> Structure(const std::string& table) {
  return CheckStructure(Parse<RoutingTableConfig>(table));
}

std::vector<std::string> Fit(const std::string& table, const std::string& net) {
  EXPECT_THAT(Structure(table), IsEmpty());
  return CheckNetFit(Parse<RoutingTableConfig>(table), Parse<caffe::NetParameter>(net));
}

TEST(TableCheckTest, SoundTablesHaveNoFault) {
  EXPECT_THAT(Structure(kTable), IsEmpty());
  EXPECT_THAT(Fit(kTable, kNet), IsEmpty());
  EXPECT_THAT(Fit(R"(solver: "s" stage { kind: CONV } node { name: "n" stage: 0 host: "a" port: 1 })", kNet),
              IsEmpty());
}

TEST(TableCheckTest, TwoNodesOnOnePort) {
  EXPECT_THAT(Structure(With(kTable, "\"fc1\" stage: 1 index: 1 host: \"a\" port: 29501",
                             "\"fc1\" stage: 1 index: 1 host: \"a\" port: 29500")),
              ElementsAre("node \"conv0\" and node \"fc1\" are both on a:29500; expected a port of its own for each"));
}

TEST(TableCheckTest, ACopyOfSnapshotsNeedsASecondHost) {
  const auto faults = [](const std::string& rest) { return Structure(std::string(kTable) + rest); };
  EXPECT_THAT(faults("snapshot_copies: 2"), IsEmpty());
  EXPECT_THAT(faults("snapshot_copies: 3"), ElementsAre("snapshot_copies is 3; expected 1 or 2"));
  EXPECT_THAT(Structure(R"(solver: "s" stage { kind: CONV } node { name: "n" stage: 0 host: "a" port: 1 }
                           snapshot_copies: 2)"),
              ElementsAre("snapshot_copies is 2, but all nodes are on host \"a\"; expected a node on another one"));
}

TEST(TableCheckTest, EnginesAreTimedOnGpusAlone) {
  const std::string timed = std::string(kTable) + "convolution_engines: TIMED";
  EXPECT_THAT(Structure(timed), ElementsAre("convolution_engines is TIMED, but no node computes on a GPU; expected "
                                            "HEURISTIC, or a node with device: \"cuda:N\""));
  EXPECT_THAT(Structure(With(timed, "stage: 1 index: 1", "stage: 1 index: 1 device: \"cuda:0\"")), IsEmpty());
  EXPECT_THAT(Structure(std::string(kTable) + "convolution_engines: HEURISTIC"), IsEmpty());
}

TEST(TableCheckTest, AGpuInAStageThatIsNotThere) {
  EXPECT_THAT(Structure(With(kTable, "stage: 1 index: 1", "stage: 7 index: 1 device: \"cuda:0\"")),
              Contains("node \"fc1\" is in stage 7; expected 0 to 1"));
}

TEST(TableCheckTest, JpegsAreDecodedOnTheGpuOfEveryNodeThatReads) {
  const std::string gpu = std::string(kTable) + "jpeg_decoder: GPU";
  const auto refused = [](const std::string& node) {
    return "jpeg_decoder is GPU, but node \"" + node +
           "\" reads records and computes on processors; expected HOST, or device: \"cuda:N\" for each node of the "
           "first stage";
  };
  EXPECT_THAT(Structure(gpu), ElementsAre(refused("conv0"), refused("conv1")));
  const std::string one = With(gpu, "stage: 0 index: 0", "stage: 0 index: 0 device: \"cuda\"");
  EXPECT_THAT(Structure(one), ElementsAre(refused("conv1")));
  const std::string both = With(one, "stage: 0 index: 1", "stage: 0 index: 1 device: \"cuda:1\"");
  EXPECT_THAT(Structure(both), IsEmpty()) << "shards may be on processors";
  EXPECT_THAT(Structure(std::string(kTable) + "jpeg_decoder: HOST"), IsEmpty());
}

TEST(TableCheckTest, WhatTlsDoesNotReachHasToBeAllowed) {
  const auto faults = [](const std::string& transport) {
    return Structure(std::string(kTable) + "transport { " + transport + " }");
  };
  for (const char* sound :
       {"tls: true", "tls: true kind: AUTO", "tls: true kind: VERBS clear: ALLOWED", "kind: VERBS"}) {
    EXPECT_THAT(faults(sound), IsEmpty()) << sound;
  }
  EXPECT_THAT(faults("tls: true kind: VERBS"),
              ElementsAre("transport has kind: VERBS and tls: true, but RDMA encrypts nothing; expected kind: TCP or "
                          "AUTO, or clear: ALLOWED"));
  EXPECT_THAT(faults("clear: ALLOWED"),
              ElementsAre("transport has clear without tls; expected tls: true, or no clear field"));
}

TEST(TableCheckTest, ShardsWithoutNodeOrWithTwo) {
  EXPECT_THAT(Structure(With(kTable, "stage: 1 index: 0", "stage: 1 index: 2")),
              ElementsAre("stage \"fc\": shard 0 has no node, although node \"fc1\" is shard 1"));
  EXPECT_THAT(Structure(With(kTable, "stage: 1 index: 0", "stage: 1 index: 1")),
              ElementsAre("stage \"fc\": node \"fc1\" and node \"fc0\" are both shard 1",
                          "stage \"fc\": shard 0 has no node, although node \"fc1\" is shard 1"));
  EXPECT_THAT(Structure(std::string(kTable) + "stage { name: 'fc8' kind: FC from_layer: 'ip2' }"),
              ElementsAre("stage \"fc8\" has no node; expected at least shard 0"));
}

TEST(TableCheckTest, EveryFaultIsListed) {
  EXPECT_THAT(Structure(R"(
      job: "" micro_batches: 0 transport { connect_timeout_s: 0 }
      stage { name: "x" kind: FC } stage { name: "x" kind: CONV } stage { }
      node { stage: 0 host: "a" port: 70000 pool_size: -1 threads: -2 memory_mb: -3 }
      node { name: "n" stage: 7 host: "a" port: 0 } node { name: "n" index: -1 })"),
              UnorderedElementsAre(
                  "the table names no solver; expected solver: \"...\"",
                  "the job has an empty name; expected job: \"...\" or no job field",
                  "micro_batches is 0; expected 1 to 524288", "connect_timeout_s is 0; expected 1 to 2000000",
                  "stage \"x\", the first, is FC; expected CONV: data enters in a data-parallel stage",
                  "stages 0 and 1 are both named \"x\"", "stage 2 has no kind; expected kind: CONV, FC or PS",
                  "node 0 has no name; expected name: \"...\"", "node 0 has port 70000; expected 1 to 65535",
                  "node 0 has pool_size -1; expected 0 to 65536", "node 0 has threads -2; expected 0 to 1024",
                  "node 0 has memory_mb -3; expected 0 to 134217728", "node \"n\" is in stage 7; expected 0 to 2",
                  "node \"n\" has port 0; expected 1 to 65535", "node \"n\" has no stage; expected stage: N",
                  "node \"n\" has index -1; expected 0 or more", "node \"n\" has no host; expected host: \"...\"",
                  "node \"n\" has no port; expected port: N", "nodes 1 and 2 are both named \"n\""));
  EXPECT_THAT(Structure("solver: 's'"),
              ElementsAre("the table has no stage; expected at least one \"stage { kind: CONV }\"",
                          "the table has no node; expected at least one \"node { ... }\""));
}

TEST(TableCheckTest, NodesWithSeveralParts) {
  const auto faults = [](const std::string& first, const std::string& second, const std::string& fc = "") {
    return Structure(
        "solver: 's' micro_batches: 3 stage { kind: CONV } stage { name: 'top' kind: CONV from_layer: 'x' }"
        "stage { kind: FC from_layer: 'y' }"
        "node { name: 'a' host: 'h' port: 1 stage: 0 index: 0 " +
        first +
        " }"
        "node { name: 'b' host: 'h' port: 2 stage: 0 index: 1 " +
        second + " }" + fc);
  };
  const std::string top0 = "part { stage: 1 } ", top1 = "part { stage: 1 index: 1 } ", shard = "part { stage: 2 } ";
  EXPECT_THAT(faults(top0 + shard, top1), IsEmpty());
  EXPECT_THAT(faults("", top0, "node { name: 'c' host: 'h' port: 3 stage: 2 }"), IsEmpty()) << "one replica takes all";
  EXPECT_THAT(
      faults(top1 + shard, top0),
      ElementsAre("node \"a\" is replica 1 of the 2 of stage \"top\", whose micro-batches do not pass its other "
                  "parts; expected a replica that takes some of the same",
                  "node \"b\" is replica 0 of the 2 of stage \"top\", whose micro-batches do not pass its other "
                  "parts; expected a replica that takes some of the same"));
  EXPECT_THAT(faults(top0 + top1, shard), ElementsAre("node \"a\" has two parts of stage \"top\"; expected parts of "
                                                      "different stages"));
  EXPECT_THAT(faults(top0 + shard, shard), ElementsAre("stage 2: node \"a\" and node \"b\" are both shard 0"));
  EXPECT_THAT(faults(top0 + "part { stage: 9 }", "part { stage: 2 index: -1 }"),
              ElementsAre("node \"a\" is in stage 9; expected 0 to 2", "node \"b\" has index -1; expected 0 or more"));
  std::string many;
  for (int i = 0; i < 16; ++i) many += shard;
  EXPECT_THAT(faults(many, top0), Contains("node \"a\" has 17 parts; expected at most 16"));
}

TEST(TableCheckTest, ParameterServers) {
  const auto faults = [](const std::string& conv, const std::string& server, const std::string& nodes = "") {
    return Structure("solver: 's' stage { name: 'c' kind: CONV to_layer: 'x' " + conv +
                     " } stage { name: 'f' kind: FC from_layer: 'y' } stage { name: 'p' kind: PS " + server +
                     " } node { name: 'a' host: 'h' port: 1 stage: 0 }" +
                     (nodes.empty() ? "node { name: 'b' host: 'h' port: 2 stage: 1 }"
                                      "node { name: 's' host: 'h' port: 3 stage: 2 }"
                                    : nodes));
  };
  const std::string by_server = "exchange: PARAMETER_SERVER", serves = "serves: 'c'";
  EXPECT_THAT(faults(by_server, serves), IsEmpty());
  EXPECT_THAT(faults("", serves),
              ElementsAre("stage \"p\" serves stage \"c\"; expected a conv stage with exchange: PARAMETER_SERVER"));
  EXPECT_THAT(faults(by_server, "serves: 'f'"),
              ElementsAre("stage \"p\" serves stage \"f\"; expected a conv stage with exchange: PARAMETER_SERVER",
                          "stage \"c\" has exchange: PARAMETER_SERVER and no servers; expected a stage { kind: PS "
                          "serves: \"c\" }"));
  EXPECT_THAT(faults("", ""),
              ElementsAre("stage \"p\" is PS and serves no stage; expected serves: \"...\", the name of "
                          "a conv stage with exchange: PARAMETER_SERVER"));
  EXPECT_THAT(
      faults("", "serves: 'q'"),
      ElementsAre("stage \"p\" is PS and serves \"q\", which is not a stage; expected serves: \"...\", the name "
                  "of a conv stage with exchange: PARAMETER_SERVER"));
  EXPECT_THAT(faults(by_server, serves + " from_layer: 'x' boundary: SCATTERED exchange: ALLREDUCE"),
              ElementsAre("stage \"p\" is PS and has boundary: SCATTERED; expected it of an FC stage, whose shards "
                          "gather the slices",
                          "stage \"p\" is PS and has exchange: ALLREDUCE; expected it of a conv stage, whose replicas "
                          "agree on parameters",
                          "stage \"p\" is PS and has layers; expected none"));
  EXPECT_THAT(faults(by_server + " serves: 'p'", serves),
              ElementsAre("stage \"c\" is CONV and serves a stage; expected it of a PS stage"));
  EXPECT_THAT(
      faults(by_server, serves + " } stage { name: 'q' kind: PS serves: 'c'",
             "node { name: 'b' host: 'h' port: 2 stage: 1 } node { name: 's' host: 'h' port: 3 stage: 2 }"
             "node { name: 't' host: 'h' port: 4 stage: 3 }"),
      ElementsAre("stage \"p\" and stage \"q\" both serve stage \"c\"; expected one PS stage for a conv stage"));
  EXPECT_THAT(faults(by_server, serves,
                     "node { name: 'b' host: 'h' port: 2 stage: 2 part { stage: 1 } }"
                     "node { name: 'g' host: 'h' port: 3 stage: 0 index: 1 device: 'cuda:0' }"),
              ElementsAre("node \"b\" is a parameter server (stage \"p\") and has other parts; expected a node of its "
                          "own",
                          "node \"g\" computes on cuda:0 in stage \"c\", whose gradients go by parameter servers; "
                          "expected device \"cpu\""));
  EXPECT_THAT(faults(by_server, serves, "node { name: 'b' host: 'h' port: 2 stage: 1 }"),
              ElementsAre("stage \"p\" has no node; expected at least server 0"));
}

TEST(TableCheckTest, Staleness) {
  const std::string sound = std::string(kTable);
  EXPECT_THAT(Structure(sound + "staleness: 64"), IsEmpty());
  EXPECT_THAT(Structure(sound + "staleness: 65"), ElementsAre("staleness is 65; expected 0 to 64"));
  EXPECT_THAT(Structure(sound + "staleness: -1"), ElementsAre("staleness is -1; expected 0 to 64"));
  EXPECT_THAT(Structure(sound + "staleness: 1 precision: FP16"),
              ElementsAre("staleness is 1 with precision: FP16, whose loss scale follows from the update before; "
                          "expected staleness: 0"));
  EXPECT_THAT(Structure(With(sound, "threads: 3", "device: 'cuda:1'") + "staleness: 1"),
              ElementsAre("node \"fc0\" computes on cuda:1 with staleness 1; expected device \"cpu\""));
}

TEST(TableCheckTest, ALinkHasOneSpeed) {
  const auto with = [](const char* first, const char* second) {
    return Structure(With(With(kTable, "stage: 0 index: 0", Format("stage: 0 index: 0 link_gbit_per_s: %s", first)),
                          "stage: 1 index: 0", Format("stage: 1 index: 0 link_gbit_per_s: %s", second)));
  };
  EXPECT_THAT(with("2.5", "10"), IsEmpty());  // of two hosts
  EXPECT_THAT(with("-1", "nan"), ElementsAre("node \"conv0\" has link_gbit_per_s -1; expected 0 to 1e+06",
                                             "node \"fc0\" has link_gbit_per_s nan; expected 0 to 1e+06"));
  EXPECT_THAT(
      Structure(With(With(kTable, "stage: 0 index: 0", "stage: 0 index: 0 link_gbit_per_s: 1"), "stage: 1 index: 1",
                     "stage: 1 index: 1 link_gbit_per_s: 10")),
      ElementsAre("node \"conv0\" and node \"fc1\", both on host \"a\", have link_gbit_per_s 1 and 10; expected one "
                  "number for a host"));
}

TEST(TableCheckTest, Shares) {
  EXPECT_THAT(Structure(With(kTable, "stage: 0 index: 0", "stage: 0 index: 0 share: 3")), IsEmpty());
  EXPECT_THAT(Structure(With(kTable, "stage: 0 index: 0", "stage: 0 index: 0 share: 0")),
              ElementsAre("node \"conv0\" has share 0; expected 1 to 10000"));
  EXPECT_THAT(Structure(With(kTable, "stage: 1 index: 0", "stage: 1 index: 0 share: 2")),
              ElementsAre("node \"fc0\" has a share of the batch, but is not in stage \"conv\", whose nodes read it"));
  EXPECT_THAT(Structure(With(kTable, "stage: 0 index: 0", "stage: 0 index: 0 share: 2") + "batch: PER_REPLICA"),
              ElementsAre("node \"conv0\" has share 2 with batch: PER_REPLICA, where all have the same; expected no "
                          "share, or batch: GLOBAL"));
  EXPECT_THAT(Fit(With(kTable, "stage: 0 index: 0", "stage: 0 index: 0 share: 3"), kNet), IsEmpty());
  EXPECT_THAT(Fit(With(kTable, "stage: 0 index: 0", "stage: 0 index: 0 share: 4"), kNet),
              ElementsAre("node \"conv1\" has a share of 1 in 5 of the 8 samples of a batch (batch_size of layer "
                          "\"data\"): too few for 2 micro-batches; expected a larger share, or fewer micro-batches"));
}

TEST(TableCheckTest, LossScaling) {
  const auto faults = [](const std::string& more) { return Structure(std::string(kTable) + more); };
  EXPECT_THAT(faults("precision: FP16"), IsEmpty());
  EXPECT_THAT(faults("precision: FP16 loss_scaling { initial: 1 growth_interval: 0 }"), IsEmpty());
  EXPECT_THAT(faults("precision: FP16 loss_scaling { initial: 1.2676506002282294e30 }"), IsEmpty());
  EXPECT_THAT(faults("precision: BF16"), IsEmpty());
  for (const char* precision : {"FP32", "TF32", "BF16"}) {
    EXPECT_THAT(faults(std::string("precision: ") + precision + " loss_scaling { }"),
                ElementsAre(std::string("loss_scaling is set with precision: ") + precision +
                            "; expected precision: FP16, or no loss_scaling"));
  }
  for (const char* initial : {"0", "-2", "0.5", "3", "inf", "nan", "65537", "2.5353012004564588e+30"}) {
    EXPECT_THAT(
        faults(std::string("precision: FP16 loss_scaling { initial: ") + initial + " }"),
        ElementsAre(std::string("loss_scaling has initial: ") + initial + "; expected a power of two from 1 to 2^100"));
  }
  EXPECT_THAT(faults("precision: FP16 loss_scaling { growth_interval: -1 }"),
              ElementsAre("loss_scaling has growth_interval: -1; expected 0 (it never grows) or more"));
}

std::vector<std::string> Aliases(const std::string& host) {
  if (host == "a" || host == "alias-of-a") return {"10.0.0.1", "fe80::1"};
  if (host == "b") return {"10.0.0.2"};
  if (host == "localhost") return {"this host"};
  return {};
}

TEST(TableCheckTest, NumbersThatNoHostHas) {
  const std::string node = "\"fc1\" stage: 1 index: 1";
  EXPECT_THAT(Structure(With(kTable, node, node + " pool_size: 65536 threads: 1024 memory_mb: 134217728")), IsEmpty());
  EXPECT_THAT(Structure(With(kTable, node, node + " pool_size: 65537 threads: 1025 memory_mb: 134217729")),
              ElementsAre("node \"fc1\" has pool_size 65537; expected 0 to 65536",
                          "node \"fc1\" has threads 1025; expected 0 to 1024",
                          "node \"fc1\" has memory_mb 134217729; expected 0 to 134217728"));
  EXPECT_THAT(Structure(With(kTable, node, node + " memory_mb: 17592186044416")),  // 2^44 MiB are 2^64 bytes
              ElementsAre("node \"fc1\" has memory_mb 17592186044416; expected 0 to 134217728"));
  EXPECT_THAT(Structure(std::string(kTable) + "transport { connect_timeout_s: 2147483647 }"),
              ElementsAre("connect_timeout_s is 2147483647; expected 1 to 2000000"));
}

TEST(TableCheckTest, BatchesThatCannotBeCounted) {
  EXPECT_THAT(Fit(kTable, With(kNet, "batch_size: 8", "batch_size: 2147483647")), IsEmpty());
  EXPECT_THAT(Fit(kTable, With(kNet, "batch_size: 8", "batch_size: 4294967295")), IsEmpty())
      << "a fault of the net, whatever the table";
}

TEST(TableCheckTest, AliasesOfOneHostShareItsPorts) {
  const auto hosts = [](const std::string& table) { return CheckHosts(Parse<RoutingTableConfig>(table), &Aliases); };
  EXPECT_THAT(hosts(kTable), IsEmpty());
  EXPECT_THAT(hosts(With(kTable, "index: 1 host: \"b\"", "index: 1 host: \"alias-of-a\"")),
              ElementsAre("node \"conv0\" and node \"conv1\" are both on port 29500 of one host, named \"a\" and "
                          "\"alias-of-a\""));
  EXPECT_THAT(hosts(With(kTable, "index: 1 host: \"b\"", "index: 1 host: \"nowhere\"")),
              ElementsAre("node \"conv1\": cannot resolve host \"nowhere\""));
  EXPECT_THAT(
      hosts(With(kTable, "index: 1 host: \"b\"", "index: 1 host: \"localhost\"")),
      ElementsAre("node \"conv1\": host \"localhost\" means a different machine on each host; expected the name by "
                  "which \"a\" (node \"conv0\") reaches it"));
}

TEST(TableCheckTest, NodesByHostWhateverItsName) {
  const auto nodes = [](const std::string& table) { return NodesByHost(Parse<RoutingTableConfig>(table), &Aliases); };
  EXPECT_THAT(nodes(kTable), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(nodes(With(kTable, "index: 1 host: \"b\"", "index: 1 host: \"alias-of-a\"")),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));
  EXPECT_THAT(nodes(With(kTable, "index: 1 host: \"b\"", "index: 1 host: \"nowhere\"")),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1), ElementsAre(3)));
}

TEST(TableCheckTest, StagesThatDoNotTileTheNet) {
  EXPECT_THAT(Fit(With(kTable, "to_layer: \"pool1\"", "to_layer: \"pol1\""), kNet),
              ElementsAre("stage \"conv\": to_layer \"pol1\" is not a layer of the net (did you mean \"pool1\"?)"));
  EXPECT_THAT(Fit(With(kTable, "from_layer: \"ip1\"", "from_layer: \"fc6\""), kNet),
              ElementsAre("stage \"fc\": from_layer \"fc6\" is not a layer of the net"));
  EXPECT_THAT(Fit(With(kTable, "from_layer: \"ip1\"", "from_layer: \"ip2\""), kNet),
              ElementsAre("layers \"ip1\" to \"relu2\" of the net: not in any stage"));
  EXPECT_THAT(Fit(With(kTable, "from_layer: \"ip1\"", "from_layer: \"pool1\""), kNet),
              ElementsAre("stage \"conv\" and stage \"fc\" both have layer \"pool1\""));
  EXPECT_THAT(Fit(With(kTable, "to_layer: \"pool1\"", "to_layer: \"pool1\" from_layer: \"pool1\""), kNet),
              ElementsAre("layers \"conv1\" to \"relu1\" of the net: not in any stage"));
  EXPECT_THAT(Fit(With(kTable, "to_layer: \"pool1\"", "from_layer: \"pool1\" to_layer: \"conv1\""), kNet),
              ElementsAre("stage \"conv\" ends at layer \"conv1\", before it begins at layer \"pool1\""));
}

TEST(TableCheckTest, LayersByName) {
  const auto fc = [](const std::string& layers) {
    return With(With(kTable, "to_layer: \"pool1\"", ""), "from_layer: \"ip1\"", layers);
  };
  EXPECT_THAT(Fit(fc("layer: 'ip*' layer: 'relu2' layer: 'accuracy' layer: 'loss'"), kNet), IsEmpty())
      << "what is named is not in the other stage's range";
  EXPECT_THAT(Fit(fc("layer: 'ip?' layer: 'ipp1' layer: 'x*'"), kNet),
              ElementsAre("stage \"fc\": layer \"ipp1\" is not a layer of the net (did you mean \"ip1\"?)",
                          "stage \"fc\": layer \"x*\" is not a layer of the net"));
  EXPECT_THAT(Fit(With(fc("layer: 'ip1'"), "kind: CONV", "kind: CONV from_layer: 'data' layer: 'ip1'"), kNet),
              ElementsAre("stage \"conv\" and stage \"fc\" both name layer \"ip1\""));
  EXPECT_THAT(Fit(With(fc("layer: 'ip1'"), "kind: CONV", "kind: CONV layer: 'ip2'"), kNet),
              ElementsAre("layers \"conv1\" to \"pool1\" of the net: not in any stage",
                          "layer \"relu2\" of the net: not in any stage",
                          "layers \"accuracy\" to \"loss\" of the net: not in any stage"));
}

TEST(TableCheckTest, ReplicasOfSeveralConvStages) {
  const auto faults = [](int first, int second, int micro_batches) {
    std::string table = "solver: 's' micro_batches: " + std::to_string(micro_batches) +
                        " stage { kind: CONV to_layer: 'conv1' } stage { name: 'top' kind: CONV from_layer: 'pool1' }";
    for (int i = 0; i < first + second; ++i) {
      const int stage = i < first ? 0 : 1;
      table += "node { name: 'n" + std::to_string(i) + "' host: 'h' port: " + std::to_string(29500 + i) +
               " stage: " + std::to_string(stage) + " index: " + std::to_string(stage == 0 ? i : i - first) + " }";
    }
    return Structure(table);
  };
  for (int second : {1, 2, 4, 8}) EXPECT_THAT(faults(4, second, 2), IsEmpty()) << second;
  EXPECT_THAT(faults(4, 3, 1),
              ElementsAre("stage \"top\" has 3 replicas and stage 0 4; expected one number to divide the other"));
  EXPECT_THAT(faults(2, 4, 1), ElementsAre("stage \"top\" has 4 replicas for 2 micro-batches (of 2 replicas, 1 each); "
                                           "expected at most as many"));
}

TEST(TableCheckTest, DataOutsideTheFirstStage) {
  const std::string net = With(kNet, "layer { name: \"ip2\"",
                               "layer { name: \"more\" type: \"Data\" top: \"more\" data_param { batch_size: 8 } }"
                               "layer { name: \"ip2\"");
  EXPECT_THAT(Fit(kTable, net), IsEmpty()) << "it belongs to the first stage wherever it stands";
  EXPECT_THAT(
      Fit(With(kTable, "kind: FC", "kind: FC layer: \"more\""), net),
      ElementsAre(
          "layer \"more\" (Data) produces input data in stage \"fc\"; expected it in the first stage, stage \"conv\""));
}

TEST(TableCheckTest, MoreMicroBatchesThanSamples) {
  EXPECT_THAT(Fit(With(kTable, "micro_batches: 2", "micro_batches: 4"), kNet), IsEmpty());
  EXPECT_THAT(Fit(With(kTable, "micro_batches: 2", "micro_batches: 5"), kNet),
              ElementsAre("2 replica(s) x 5 micro-batches are more than the 8 samples of a batch (batch_size of layer "
                          "\"data\"); expected at least one sample in each micro-batch"));
  EXPECT_THAT(Fit(With(kTable, "micro_batches: 2", "micro_batches: 8 batch: PER_REPLICA"), kNet), IsEmpty());
  EXPECT_THAT(Fit(kTable, With(kNet, "batch_size: 8", "")), IsEmpty()) << "a fault of the net, whatever the table";
}

TEST(TableCheckTest, WhatShardsCanNotShare) {
  std::string table = kTable;
  for (int shard = 2; shard < 4; ++shard) {
    table += "node { name: 'fc_" + std::to_string(shard) + "' stage: 1 index: " + std::to_string(shard) +
             " host: 'c' port: " + std::to_string(shard) + " }";
  }
  EXPECT_THAT(Fit(table, kNet), IsEmpty()) << "the 3 outputs of ip2 lie on 3 of 4 shards";
  EXPECT_THAT(
      Fit(kTable, With(kNet, "name: \"relu2\" type: \"ReLU\" bottom: \"ip1\" top: \"ip1\"",
                       "name: \"relu2\" type: \"Convolution\" bottom: \"ip1\" top: \"x\"")),
      ElementsAre("layer \"relu2\" (Convolution) can't be split over the 2 shards of stage \"fc\"; expected it in "
                  "a conv stage or one shard"));
  const std::string no_product =
      With(With(kTable, "to_layer: \"pool1\"", "to_layer: \"ip2\""), "from_layer: \"ip1\"", "from_layer: \"accuracy\"");
  EXPECT_THAT(Fit(no_product, kNet),
              ElementsAre("stage \"fc\" has 2 shards but no InnerProduct layer to split; expected one node"));
}

TEST(TableCheckTest, SplitsOfWhatCannotBeSplit) {
  const auto fit = [](const std::string& split) { return Fit(kTable + split, kNet); };
  EXPECT_THAT(fit("split { layer: 'ip1' by: INPUTS } split { layer: 'ip2' by: NONE }"), IsEmpty());
  const auto cosines = [](const std::string& split) {
    return Fit(kTable + split, With(kNet, "num_output: 5", "num_output: 5 normalize: true bias_term: false"));
  };
  EXPECT_THAT(cosines("split { layer: 'ip1' by: OUTPUTS } split { layer: 'ip2' by: INPUTS }"), IsEmpty());
  EXPECT_THAT(cosines("split { layer: 'ip1' by: NONE }"), IsEmpty());
  EXPECT_THAT(cosines("split { layer: 'ip1' by: INPUTS }"),
              ElementsAre("split: layer \"ip1\" (InnerProduct) can't be split by INPUTS; expected OUTPUTS or NONE"));
  EXPECT_THAT(fit("split { layer: 'ip3' by: INPUTS }"),
              ElementsAre("split: \"ip3\" is not a layer of the net (did you mean \"ip1\"?)"));
  EXPECT_THAT(fit("split { layer: 'relu2' by: INPUTS }"),
              ElementsAre("split: layer \"relu2\" (ReLU) can't be split; expected an InnerProduct layer"));
  EXPECT_THAT(
      Fit(With(With(kTable, "to_layer: \"pool1\"", "to_layer: \"relu2\""), "from_layer: \"ip1\"",
               "from_layer: \"ip2\"") +
              "split { layer: 'ip1' by: NONE }",
          kNet),
      ElementsAre("split: layer \"ip1\" (InnerProduct) is in stage \"conv\", whose nodes are replicas; expected "
                  "a layer of an FC stage"));
  EXPECT_THAT(
      Structure(std::string(kTable) + "split { by: INPUTS } split { layer: 'a' } split { layer: 'a' by: NONE }"),
      ElementsAre("split 0 names no layer; expected layer: \"...\"", "splits 1 and 2 are both of layer \"a\""));
  EXPECT_THAT(
      Structure(With(kTable, "kind: CONV", "kind: CONV boundary: SCATTERED")),
      ElementsAre("stage \"conv\" is CONV and has boundary: SCATTERED; expected it of an FC stage, whose shards "
                  "gather the slices"));
}

TEST(TableCheckTest, StageWithoutTrainingLayers) {
  const std::string table =
      std::string(With(kTable, "from_layer: \"ip1\"", "from_layer: \"ip1\" to_layer: \"ip2\"")) +
      "stage { name: 'a' kind: FC from_layer: 'accuracy' to_layer: 'accuracy' }"
      "stage { name: 'l' kind: FC from_layer: 'loss' }"
      "node { name: 'a' stage: 2 host: 'c' port: 1 } node { name: 'l' stage: 3 host: 'c' port: 2 }";
  EXPECT_THAT(Fit(table, kNet), ElementsAre("stage \"a\" has no layer in phase TRAIN"));
}

TEST(TableCheckTest, FaultsOfAllKindsAreListedTogether) {
  const std::string table =
      With(With(With(kTable, "micro_batches: 2", "micro_batches: 50"), "host: \"b\"", "host: \"nowhere\""),
           "name: \"fc1\" stage: 1", "name: \"fc1\" stage: 9");
  EXPECT_THAT(
      CheckTable(Parse<RoutingTableConfig>(table), Parse<caffe::NetParameter>(kNet), &Aliases),
      ElementsAre("node \"fc1\" is in stage 9; expected 0 to 1", "node \"conv1\": cannot resolve host \"nowhere\"",
                  "2 replica(s) x 50 micro-batches are more than the 8 samples of a batch (batch_size of layer "
                  "\"data\"); expected at least one sample in each micro-batch"));
}

}  // namespace
}  // namespace hp
