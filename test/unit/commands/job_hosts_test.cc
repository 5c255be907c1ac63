#include "commands/job_hosts.h"

#include "commands/slurm_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>

namespace hp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(SlurmHostsTest, HostLists) {
  EXPECT_THAT(*ExpandHostList("a"), ElementsAre("a"));
  EXPECT_THAT(*ExpandHostList("a[1-2,07],b"), ElementsAre("a1", "a2", "a07", "b"));
  EXPECT_THAT(*ExpandHostList("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(*ExpandHostList("r[0-1]n[2-3].lan"), ElementsAre("r0n2.lan", "r0n3.lan", "r1n2.lan", "r1n3.lan"));
  EXPECT_THAT(*ExpandHostList("[4-5]"), ElementsAre("4", "5"));
  EXPECT_THAT(*ExpandHostList("h[0-99999]"), SizeIs(100'000));
}

TEST(SlurmHostsTest, WhatIsNoHostList) {
  for (const char* list : {"", "a,", ",a", "a[", "a]", "a[]", "a[1", "a[1-]", "a[-1]", "a[2-1]", "a[x]", "a[1[2]]",
                           "a[1]]", "a[0-100000]", "a[0-999]b[0-999]", "a[99999999999]", "b,a[0-99999]"}) {
    const auto hosts = ExpandHostList(list);
    EXPECT_EQ(hosts.status().code(), StatusCode::kInvalidArgument) << list;
    EXPECT_THAT(hosts.status().message(), HasSubstr("is no list of hosts")) << list;
  }
}

TEST(SlurmHostsTest, Counts) {
  EXPECT_THAT(*ExpandCounts("2"), ElementsAre(2));
  EXPECT_THAT(*ExpandCounts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* counts : {"", "x", "2(x", "2(x)", "2(x3", "2(x3),", "-1", "1(x999999999)"}) {
    EXPECT_EQ(ExpandCounts(counts).status().code(), StatusCode::kInvalidArgument) << counts;
  }
}

using Variables = std::map<std::string, std::string>;

StatusOr<std::vector<std::string>> HostsOfTasks(const std::string& hosts, int nodes, const Variables& variables = {}) {
  EXPECT_TRUE(AreJobHosts(hosts)) << hosts;
  return JobHosts(hosts, nodes, [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(JobHostsTest, APlanHasEachHostOnce) {
  const Variables slurm = {{"SLURM_JOB_NODELIST", "n[0-1],m"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  const auto plan = [&slurm](const std::string& hosts) {
    return JobHostsToPlan(hosts, [&slurm](const char* name) {
      const auto found = slurm.find(name);
      return found == slurm.end() ? std::string() : found->second;
    });
  };
  EXPECT_THAT(*plan("slurm"), ElementsAre("n0", "n1", "m"));
  EXPECT_THAT(*plan("slurm/cuda:0-3"), ElementsAre("n0/cuda:0-3", "n1/cuda:0-3", "m/cuda:0-3"));
  EXPECT_THAT(plan("slurm/cuda").status().message(), HasSubstr("expected slurm/cuda:0-3 or the like"));
  EXPECT_THAT(plan("kubernetes:a.b").status().message(), HasSubstr("goes with --conv and --fc"));
  EXPECT_THAT(plan("ranks").status().message(), HasSubstr("MASTER_ADDR is not set"));
}

TEST(JobHostsTest, TasksFillOneHostAfterTheOther) {
  const std::vector<std::string> hosts = {"a", "b", "c"};
  const auto some = PlaceTasks({"a", "c"}, hosts);
  EXPECT_THAT(some->hosts, ElementsAre("a", "c"));
  EXPECT_EQ(some->nodes_per_host, 1);
  EXPECT_EQ(PlaceTasks({"a", "a", "b", "b"}, hosts)->nodes_per_host, 2);
  EXPECT_THAT(PlaceTasks({"b", "a"}, hosts).status().message(), HasSubstr("a is behind b"));
  EXPECT_THAT(PlaceTasks({"a", "b", "a"}, hosts).status().message(), HasSubstr("a is behind b"));
  EXPECT_THAT(PlaceTasks({"a", "b", "b"}, hosts).status().message(), HasSubstr("as many on each host"));
}

TEST(JobHostsTest, NamesOfHostsAreNone) {
  for (const char* hosts : {"a,b", "slurm0", "slurm,b", "hosts.prototxt", "a/cuda:0-3", "ranks.lan"}) {
    EXPECT_FALSE(AreJobHosts(hosts)) << hosts;
  }
}

TEST(JobHostsTest, SlurmsTasksFillOneHostAfterTheOther) {
  const Variables batch = {{"SLURM_JOB_NODELIST", "n[0-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  EXPECT_THAT(*HostsOfTasks("slurm", 5, batch), ElementsAre("n0", "n0", "n1", "n1", "n2"));
  EXPECT_THAT(*HostsOfTasks("slurm/cuda", 5, batch),
              ElementsAre("n0/cuda", "n0/cuda", "n1/cuda", "n1/cuda", "n2/cuda"));
  Variables step = batch;
  step["SLURM_STEP_NUM_TASKS"] = "1";
  step["SLURM_STEP_NODELIST"] = "n2";
  step["SLURM_STEP_TASKS_PER_NODE"] = "1";
  EXPECT_THAT(*HostsOfTasks("slurm", 1, step), ElementsAre("n2"));
}

TEST(JobHostsTest, AnAllocationOfAnotherSize) {
  const Variables batch = {{"SLURM_JOB_NODELIST", "n[0-1]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
  EXPECT_EQ(HostsOfTasks("slurm", 5, batch).status().message(),
            "--hosts=slurm: the allocation on n0, n1 has 4 task(s), and the table 5 node(s); expected a task for each "
            "node: ask for 5 (sbatch --ntasks=5), or give the table 4 (--conv, --fc)");
  EXPECT_EQ(ExitStatus(HostsOfTasks("slurm", 3, batch).status()), 2);
  EXPECT_THAT(HostsOfTasks("slurm", 5).status().message(),
              HasSubstr("SLURM_JOB_NODELIST is not set; expected to run in"));
  EXPECT_THAT(
      HostsOfTasks("slurm", 2, {{"SLURM_JOB_NODELIST", "n[0-1"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}}).status().message(),
      HasSubstr("SLURM_JOB_NODELIST: \"n[0-1\" is no list of hosts"));
  EXPECT_THAT(
      HostsOfTasks("slurm", 2, {{"SLURM_JOB_NODELIST", "n[0-1]"}, {"SLURM_TASKS_PER_NODE", "2"}}).status().message(),
      HasSubstr("expected a count for each host"));
}

TEST(JobHostsTest, PodsOfAnIndexedJob) {
  EXPECT_THAT(*HostsOfTasks("kubernetes:digits.nodes", 2), ElementsAre("digits-0.nodes", "digits-1.nodes"));
  EXPECT_THAT(*HostsOfTasks("kubernetes:d.s.team.svc/cuda", 1), ElementsAre("d-0.s.team.svc/cuda"));
  for (const char* names : {"kubernetes:", "kubernetes:digits", "kubernetes:digits.", "kubernetes:.nodes"}) {
    EXPECT_THAT(HostsOfTasks(names, 2).status().message(), HasSubstr("expected kubernetes:JOB.SERVICE")) << names;
  }
}

TEST(JobHostsTest, OnlyTheHostOfRankZeroHasAVariable) {
  EXPECT_THAT(*HostsOfTasks("ranks", 2, {{"MASTER_ADDR", "a"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
              ElementsAre("a", "a"));
  EXPECT_THAT(HostsOfTasks("ranks", 2, {{"MASTER_ADDR", "a"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "1"}})
                  .status()
                  .message(),
              HasSubstr("of the 2 tasks, 1 run on MASTER_ADDR (LOCAL_WORLD_SIZE)"));
  EXPECT_THAT(HostsOfTasks("ranks", 2, {{"MASTER_ADDR", "a"}, {"WORLD_SIZE", "2"}}).status().message(),
              HasSubstr("expected --hosts=HOST,... in the order of RANK"));
  EXPECT_THAT(HostsOfTasks("ranks", 2, {{"WORLD_SIZE", "2"}}).status().message(), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(HostsOfTasks("ranks", 3, {{"MASTER_ADDR", "a"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}})
                  .status()
                  .message(),
              HasSubstr("WORLD_SIZE has 2 task(s), and the table 3 node(s)"));
}

TEST(JobHostsTest, MasterPortIsForRanks) {
  const auto port = [](const std::string& hosts, const std::string& master_port) {
    return JobPort(hosts, 29500, [&master_port](const char*) { return master_port; });
  };
  EXPECT_EQ(*port("ranks", "1234"), 1234);
  EXPECT_EQ(*port("ranks/cuda", "1234"), 1234);
  EXPECT_EQ(*port("ranks", ""), 29500);
  EXPECT_EQ(*port("slurm", "1234"), 29500);
  for (const char* text : {"0", "65536", "-1", "x", "1x"}) {
    EXPECT_THAT(port("ranks", text).status().message(), HasSubstr("MASTER_PORT is \"" + std::string(text))) << text;
  }
}

class HostFileTest : public ::testing::Test {
 protected:
  HostFileTest() : path_("/tmp/job_hosts_test." + std::to_string(getpid())) {}
  ~HostFileTest() override { std::remove(path_.c_str()); }
  StatusOr<std::vector<std::string>> Read(const std::string& text, int nodes) {
    std::ofstream(path_) << text;
    return HostsOfTasks("hostfile:" + path_, nodes);
  }

  const std::string path_;
};

TEST_F(HostFileTest, SlotsAndRepeatedLines) {
  EXPECT_THAT(*Read("# two hosts\na slots=2 max_slots=4\n\nb:1  # one\nc\nc\nfd00::1\n", 6),
              ElementsAre("a", "a", "b", "c", "c", "fd00::1"));
}

TEST_F(HostFileTest, FaultsNameTheLine) {
  for (const char* text : {"a\nb slots=x\n", "a\nb slots=0\n", "a\nb 2\n", "a\nb:x\n"}) {
    EXPECT_THAT(Read(text, 2).status().message(), HasSubstr(path_ + ":2: \"b")) << text;
  }
  EXPECT_THAT(Read("a\n", 2).status().message(),
              HasSubstr("it has 1 task(s), and the table 2 node(s); expected a task for each node: start 2, or"));
  std::remove(path_.c_str());
  EXPECT_EQ(HostsOfTasks("hostfile:" + path_, 2).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace hp
