// Which transport a node makes of its table, its flags and its environment.
#include "node/make_transport.h"

#include "proto/routing.pb.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <typeinfo>

namespace hp {
namespace {

using testing::HasSubstr;

RoutingTableConfig Table(const std::string& verbs) {
  RoutingTableConfig table;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("transport { verbs { " + verbs + " } }", &table));
  return table;
}

StatusOr<VerbsSettings> Settings(const std::string& verbs, const HostDevices& host = {},
                                 const std::map<std::string, std::string>& environment = {}) {
  return VerbsSettingsFor(Table(verbs), host, [&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  });
}

TEST(VerbsSettingsFor, ADefaultTableHasTheTransportsDefaults) {
  const StatusOr<VerbsSettings> settings = Settings("");
  const VerbsSettings defaults;
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->hca, "");
  EXPECT_EQ(settings->gid_index, defaults.gid_index);
  EXPECT_EQ(settings->timeout, defaults.timeout);
  EXPECT_EQ(settings->retry_count, defaults.retry_count);
  EXPECT_EQ(settings->rnr_retry, defaults.rnr_retry);
  EXPECT_EQ(settings->qps_per_connection, defaults.qps_per_connection);
  EXPECT_EQ(settings->relaxed_ordering, defaults.relaxed_ordering);
  EXPECT_EQ(settings->gpudirect, defaults.gpudirect);
  EXPECT_EQ(settings->gpudirect_level, defaults.gpudirect_level);
  EXPECT_EQ(settings->setup, QpSetup::kTcp);
}

TEST(VerbsSettingsFor, EveryFieldOfTheTableCounts) {
  const StatusOr<VerbsSettings> settings = Settings(
      "hca: 'mlx5_0:1' gid_index: 5 roce_version_num: 1 tc: 106 sl: 3 pkey: 2 timeout: 18 retry_cnt: 2 rnr_retry: 5 "
      "qps_per_connection: 4 pci_relaxed_ordering: 0 net_gdr_level: 'PXB' gpudirect: PEERMEM setup: RDMACM");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->hca, "mlx5_0:1");
  EXPECT_EQ(settings->gid_index, 5);
  EXPECT_EQ(settings->roce_version, 1);
  EXPECT_EQ(settings->traffic_class, 106);
  EXPECT_EQ(settings->service_level, 3);
  EXPECT_EQ(settings->pkey_index, 2);
  EXPECT_EQ(settings->timeout, 18);
  EXPECT_EQ(settings->retry_count, 2);
  EXPECT_EQ(settings->rnr_retry, 5);
  EXPECT_EQ(settings->qps_per_connection, 4);
  EXPECT_EQ(settings->relaxed_ordering, RelaxedOrdering::kOff);
  EXPECT_EQ(settings->gpudirect_level, "PXB");
  EXPECT_EQ(settings->gpudirect, GpuDirect::kPeermem);
  EXPECT_EQ(settings->setup, QpSetup::kRdmaCm);
}

TEST(VerbsSettingsFor, FlagsWinOverTheTableAndTheTableOverTheEnvironment) {
  const std::map<std::string, std::string> environment = {{"NCCL_IB_HCA", "env"}, {"NCCL_IB_GID_INDEX", "7"}};
  EXPECT_EQ(Settings("", {}, environment)->hca, "env");
  EXPECT_EQ(Settings("", {}, environment)->gid_index, 7);
  EXPECT_EQ(Settings("hca: 'table' gid_index: 3", {}, environment)->hca, "table");
  EXPECT_EQ(Settings("hca: 'table' gid_index: 3", {}, environment)->gid_index, 3);
  EXPECT_EQ(Settings("gid_index: -1", {}, environment)->gid_index, -1) << "said to be chosen";
  EXPECT_EQ(Settings("hca: 'table' gid_index: 3", {"flag", 1}, environment)->hca, "flag");
  EXPECT_EQ(Settings("hca: 'table' gid_index: 3", {"flag", -1}, environment)->gid_index, -1);
}

TEST(VerbsSettingsFor, MistakesAreNamed) {
  EXPECT_THAT(Settings("", {}, {{"NCCL_IB_GID_INDEX", "3x"}}).status().message(),
              HasSubstr("NCCL_IB_GID_INDEX is \"3x\"; expected a number"));
  EXPECT_THAT(Settings("timeout: 32").status().message(), HasSubstr("timeout is 32; expected 1 to 31"));
  EXPECT_THAT(Settings("pci_relaxed_ordering: 3").status().message(), HasSubstr("expected 0, 1 or 2"));
  EXPECT_EQ(Settings("qps_per_connection: 0").status().code(), StatusCode::kInvalidArgument);
}

/// The transport of the first of two nodes, not started. @param token whether the process has one.
StatusOr<std::unique_ptr<Transport>> TransportFor(const std::string& transport, bool token) {
  const auto table = MakeTable(
      "solver: 's' stage { kind: CONV } node { name: 'a' stage: 0 host: '127.0.0.1' port: 1 } "
      "node { name: 'b' stage: 0 index: 1 host: '127.0.0.1' port: 2 } transport { " +
      transport + " }");
  HostSettings host;
  if (token) host.keys = JobKeys{.node = true};
  HP_ASSIGN_OR_RETURN(auto listener, TcpListener::Bind("127.0.0.1", 0));
  return MakeNodeTransport(table, 0, host, std::move(listener));
}

TEST(MakeNodeTransport, TlsNeedsTheToken) {
  const auto transport = TransportFor("tls: true", false);
  EXPECT_EQ(transport.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(transport.status().message(), HasSubstr("needs the job's token: --token_file=FILE"));
  EXPECT_TRUE(TransportFor("tls: true", true).ok());
}

TEST(MakeNodeTransport, OverTlsThereIsNoRdmaUnlessAllowed) {
  const auto kind = [](const std::string& transport) {
    const auto made = TransportFor(transport, true);
    EXPECT_TRUE(made.ok()) << made.status();
    const Transport& its = **made;
    return std::string(typeid(its).name());
  };
  EXPECT_THAT(kind("kind: AUTO"), HasSubstr("VerbsTransport"));
  EXPECT_THAT(kind("kind: AUTO tls: true"), HasSubstr("TcpTransport"));
  EXPECT_THAT(kind("kind: AUTO tls: true clear: ALLOWED"), HasSubstr("VerbsTransport"));
}

}  // namespace
}  // namespace hp
