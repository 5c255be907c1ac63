// Which run a node is of. What it leaves in its folder: test/process/run_folder_test.py.
#include "commands/node_run.h"

#include "base/format.h"
#include "proto/text.h"

#include <gtest/gtest.h>

#include <cinttypes>

namespace hp {
namespace {

RoutingTable Table(const std::string& job, int port = 1) {
  RoutingTableConfig config;
  EXPECT_TRUE(ParseTextProto("solver: \"s\" stage { name: \"conv\" kind: CONV } node { name: \"a\" stage: 0 index: 0 "
                             "host: \"h\" port: " +
                                 std::to_string(port) + " }",
                             "table", &config)
                  .ok());
  if (!job.empty()) config.set_job(job);
  return *RoutingTable::Create(config, "table");
}

JobEnvironment Task(int task) {
  JobEnvironment job;
  job.task = task;
  job.run = "Slurm job 12";
  job.restarts = 3;
  return job;
}

TEST(StartOfRunTest, WhatHandedTheTableOutWins) {
  const RunStart start = StartOfRun(Table("mine"), {"run \"7\"", 2, 0}, Task(0));
  EXPECT_EQ(start.run, "run \"7\"");
  EXPECT_EQ(start.number, 2);
  EXPECT_EQ(start.table, Table("mine").hash());
}

TEST(StartOfRunTest, ATaskIsOfItsSchedulersJob) {
  const RunStart start = StartOfRun(Table("mine"), {}, Task(0));
  EXPECT_EQ(start.run, "Slurm job 12");
  EXPECT_EQ(start.number, 3);
}

TEST(StartOfRunTest, OthersAreOfTheirTable) {
  const RunStart named = StartOfRun(Table("mine"), {}, Task(-1));
  EXPECT_EQ(named.run, Format("job \"mine\", table %016" PRIx64, Table("mine").hash()));
  EXPECT_EQ(named.number, 0);
  EXPECT_NE(StartOfRun(Table("", 1), {}, {}).run, StartOfRun(Table("", 2), {}, {}).run) << "most have the default name";
}

}  // namespace
}  // namespace hp
