#include "rendezvous/address.h"

#include "rendezvous/run_id.h"
#include <gtest/gtest.h>

#include <map>

namespace hp {
namespace {

using Kind = RoutingAddress::Kind;

TEST(RoutingAddressTest, ReadsEachKind) {
  EXPECT_EQ(ParseRoutingAddress("runs/table.prototxt")->path, "runs/table.prototxt");
  const auto folder = *ParseRoutingAddress("dir:///shared/runs");
  EXPECT_EQ(folder.kind, Kind::kFolder);
  EXPECT_EQ(folder.path, "/shared/runs");
  const auto server = *ParseRoutingAddress("tcp://[fd00::1]:29400");
  EXPECT_EQ(server.kind, Kind::kServer);
  EXPECT_EQ(server.host, "fd00::1");
  EXPECT_EQ(server.port, 29400);
  const auto redis = *ParseRoutingAddress("redis://store:6379/run-7");
  EXPECT_EQ(redis.kind, Kind::kRedis);
  EXPECT_EQ(redis.host, "store");
  EXPECT_EQ(redis.run_id, "run-7");
}

TEST(RoutingAddressTest, SaysWhatIsWrong) {
  for (const char* text : {"dir://shared/runs", "tcp://host", "tcp://:29400", "tcp://host:0", "tcp://host:99999",
                           "tcp://host:1x", "tcp://fd00::1:29400", "tcp://host:29400/7", "redis://host:1/a/b", "tcp://",
                           "redis://host:1/..", "etcd://host:1"}) {
    const auto address = ParseRoutingAddress(text);
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(address.status().message().find("--routing"), std::string::npos) << address.status().message();
  }
}

TEST(RunIdTest, ComesFromTheFlagOrTheScheduler) {
  std::map<std::string, std::string> variables;
  const auto environment = [&](const char* name) { return variables[name]; };
  EXPECT_EQ(*RunIdFor("", environment), "");
  variables["PMIX_NAMESPACE"] = "prterun-host-4711@1";
  EXPECT_EQ(*RunIdFor("", environment), "prterun-host-4711-1");
  variables["SLURM_JOB_ID"] = "17";
  EXPECT_EQ(*RunIdFor("", environment), "17");
  variables["SLURM_RESTART_COUNT"] = "2";
  EXPECT_EQ(*RunIdFor("", environment), "17.2");
  EXPECT_EQ(*RunIdFor("mine", environment), "mine");
  for (const char* wrong : {"a/b", "..", "a b", "a@b"}) EXPECT_FALSE(RunIdFor(wrong, environment).ok()) << wrong;
  EXPECT_FALSE(RunIdFor(std::string(65, 'a'), environment).ok());
}

}  // namespace
}  // namespace hp
