// What a survey of hosts says, and its order.
#include "node/survey/host_report.h"
#include "node/survey/rounds.h"
#include "node/survey/survey_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace hp {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(RoundsTest, EachPairMeetsOnceAndNobodyTwiceInARound) {
  for (int hosts = 1; hosts <= 17; ++hosts) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < RoundsOf(hosts); ++round) {
      for (int host = 0; host < hosts; ++host) {
        const int partner = PartnerOf(host, round, hosts);
        if (partner < 0) continue;
        EXPECT_NE(partner, host);
        EXPECT_EQ(PartnerOf(partner, round, hosts), host);
        if (host > partner) continue;
        EXPECT_TRUE(met.insert({host, partner}).second) << host << " " << partner;
      }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(hosts * (hosts - 1) / 2)) << hosts;
  }
}

/// Hosts a, b, c alike, all pairs at 10 Gbit/s, and nothing to complain of.
SurveyReport GoodReport() {
  SurveyReport report;
  for (const char* name : {"a", "b", "c"}) {
    HostReport* host = report.add_host();
    host->set_host(name);
    host->set_node(std::string("node-") + name);
    host->set_cores(8);
    host->set_memory_mb(16000);
    host->set_free_memory_mb(12000);
    host->set_folder("/data");
    host->set_free_disk_mb(100000);
    host->set_interface("eth0");
    host->set_mtu(9000);
    host->set_speed_mbit_per_s(10000);
  }
  for (const auto& [first, second] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
    PairReport* pair = report.add_pair();
    pair->set_first(first);
    pair->set_second(second);
    pair->set_latency_us(30);
    pair->set_there_gbit_per_s(9.8);
    pair->set_back_gbit_per_s(9.6);
    pair->set_path_mtu(9000);
    pair->set_clock_ahead_ms(0.5);
  }
  return report;
}

std::vector<std::string> Lines(const SurveyReport& report) {
  std::vector<std::string> lines;
  for (const Finding& finding : FindingsOf(report)) {
    lines.push_back((finding.good ? "good " : "BAD ") + finding.what + " -> " + finding.advice);
  }
  return lines;
}

TEST(FindingsTest, GoodHosts) {
  const std::vector<std::string> lines = Lines(GoodReport());
  EXPECT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines, Not(Contains(HasSubstr("BAD"))));
  EXPECT_THAT(lines, Contains(HasSubstr("a - b: latency 30 us, 9.8 Gbit/s there, 9.6 back, MTU 9000, clock +0.5 ms")));
}

TEST(FindingsTest, WhatDeservesALookComesWithAdvice) {
  SurveyReport report = GoodReport();
  report.mutable_host(0)->set_free_memory_mb(100);
  report.mutable_host(0)->set_free_disk_mb(10);
  report.mutable_host(1)->set_mtu(1500);
  report.mutable_host(2)->set_lacks_bfloat16(true);
  report.mutable_host(1)->set_lacks_jpeg_decoder("nvJPEG is missing here");
  PairReport* pair = report.mutable_pair(0);
  pair->set_clock_ahead_ms(-2500);
  pair->set_latency_us(4000);
  report.mutable_pair(1)->set_path_mtu(1400);
  for (PairReport& of_c : *report.mutable_pair()) {
    if (of_c.second() == 2) of_c.set_back_gbit_per_s(0.9);
  }
  const std::vector<std::string> lines = Lines(report);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD host a: only 0.1 GB of memory"), HasSubstr("hproute --check"))));
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("BAD host a: only 0.0 GB are free at /data"), HasSubstr("snapshot_prefix"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD a - b: MTU 9000 and 1500"), HasSubstr("ip link set"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD a - c: MTU 1400 on the way"), HasSubstr("tunnel"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD a - b: the second clock is -2.5 s apart"), HasSubstr("NTP"))));
  EXPECT_THAT(lines, Contains(HasSubstr("BAD a - b: a latency of 4000 us")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD a - c: 9.8 Gbit/s one way, 0.9 the other"), HasSubstr("ethtool"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("BAD host c: precision: BF16 in the table"), HasSubstr("FP32"))));
  EXPECT_THAT(lines, Contains(HasSubstr("BAD host b: jpeg_decoder: GPU in the table, and nvJPEG is missing here")));
  EXPECT_THAT(lines, Contains(HasSubstr("BAD host c: its best connection has 0.9 Gbit/s")));
}

/// Hosts of nodes in the first stage, which read records.
TEST(HostReportTest, WhoWantsAJpegDecoder) {
  RoutingTableConfig config;
  config.set_solver("solver.prototxt");
  config.add_stage()->set_kind(StageConfig::CONV);
  config.add_stage()->set_kind(StageConfig::FC);
  for (const int stage : {0, 1}) {
    NodeConfig* const node = config.add_node();
    node->set_name("n" + std::to_string(stage));
    node->set_stage(stage);
    node->set_host(stage == 0 ? "a" : "b");
    node->set_port(29500);
    node->set_device("cuda:0");
  }
  EXPECT_FALSE(WantsJpegDecoder(RoutingTable::Create(config, "table.prototxt").value(), "a"));
  config.set_jpeg_decoder(RoutingTableConfig::GPU);
  const auto table = RoutingTable::Create(config, "table.prototxt");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(WantsJpegDecoder(*table, "a"));
  EXPECT_FALSE(WantsJpegDecoder(*table, "b"));
}

/// Host a has a CPU's conv node, b a GPU's alone, c two shards on CPUs.
TEST(HostReportTest, WhoWantsBFloat16) {
  for (const auto precision : {RoutingTableConfig::FP32, RoutingTableConfig::BF16, RoutingTableConfig::FP16}) {
    RoutingTableConfig config;
    config.set_solver("solver.prototxt");
    config.set_precision(precision);
    config.add_stage()->set_kind(StageConfig::CONV);
    config.add_stage()->set_kind(StageConfig::FC);
    for (const auto& [host, stage, index] :
         {std::tuple{"a", 0, 0}, std::tuple{"b", 0, 1}, std::tuple{"c", 1, 0}, std::tuple{"c", 1, 1}}) {
      NodeConfig* const node = config.add_node();
      node->set_name(host + std::to_string(config.node_size()));
      node->set_stage(stage);
      node->set_index(index);
      node->set_host(host);
      node->set_port(29500 + config.node_size());
      if (host == std::string("b")) node->set_device("cuda:0");
    }
    const auto table = RoutingTable::Create(config, "table.prototxt");
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(WantsBFloat16(*table, "a"), precision == RoutingTableConfig::BF16);
    EXPECT_FALSE(WantsBFloat16(*table, "b"));
    EXPECT_FALSE(WantsBFloat16(*table, "c")) << "inner products stay float32";
  }
}

TEST(FindingsTest, HostsForThePlanner) {
  SurveyReport report = GoodReport();
  report.mutable_pair(1)->set_back_gbit_per_s(0.9);  // c to a: b has seen c send more
  RoutingTableConfig config;
  config.set_solver("solver.prototxt");
  config.add_stage()->set_kind(StageConfig::CONV);
  for (int index = 0; index < 3; ++index) {
    NodeConfig* node = config.add_node();
    node->set_name("node-" + std::string(1, static_cast<char>('a' + index)));
    node->set_stage(0);
    node->set_index(index);
    node->set_host(std::string(1, static_cast<char>('a' + index)));
    node->set_port(29500);
    if (index == 2) node->set_device("cuda:1");
  }
  const auto table = RoutingTable::Create(config, "table.prototxt");
  ASSERT_TRUE(table.ok()) << table.status();
  const HostsConfig hosts = HostsOfSurvey(report, *table);
  ASSERT_EQ(hosts.host_size(), 3);
  EXPECT_EQ(hosts.host(0).name(), "a");
  EXPECT_EQ(hosts.host(0).cores(), 8);
  EXPECT_EQ(hosts.host(0).memory_mb(), 12000);
  EXPECT_EQ(hosts.host(2).link_gbit_per_s(), 9.6);
  EXPECT_EQ(hosts.host(2).latency_us(), 30);
  ASSERT_EQ(hosts.host(2).device_size(), 1);
  EXPECT_EQ(hosts.host(2).device(0), "cuda:1");
}

}  // namespace
}  // namespace hp
