// What sums the gradients of replicas: NCCL where all are on GPUs and may speak in clear, else a ring.
#include "node/make_exchange.h"

#include "backend/backend.h"
#include "engine/stage_exchange.h"
#include "test/support/small_job.h"
#include "transport/inproc/inproc_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

/// Who was asked to connect GPUs, as (rank, size), and whether links of a ring were made.
struct Asked {
  std::vector<std::pair<int, int>> nccl;
  bool ring = false;
};

Asked Ask(const std::string& device, const std::string& more) {
  RoutingTableConfig config = Parse<RoutingTableConfig>(kTable + more);
  for (int node : {0, 1}) config.mutable_node(node)->set_device(device);
  const RoutingTable table = RoutingTable::Create(config, "/job/table.prototxt").value();
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  auto model = NodeModel::Create(SmallJob(table), {.rank = 0, .backend = backend.get()});
  EXPECT_TRUE(model.ok()) << model.status();

  Asked asked;
  NodeDevice node_device;
  node_device.device = MakeHostDevice();  // its memory is all that is used of it
  if (device != "cpu") {
    node_device.connect = [&asked](int rank, int size, Rendezvous*) -> StatusOr<std::unique_ptr<Collectives>> {
      asked.nccl.push_back({rank, size});
      return Unavailable("no NCCL in a test");
    };
  }
  InprocNetwork network({.world_size = 4});
  const std::unique_ptr<Transport> transport = network.Create(0);
  std::unique_ptr<ExchangeLinks> links;
  ExchangeOptions options;
  options.model = model->get();
  options.part = table.node(0).parts.front();
  options.device = &node_device;
  options.params = ExchangedParamsOf(**model, ExchangedGroupsOf(**model, 0));
  options.transport = transport.get();
  options.callbacks = {.on_exchanged = [](uint64_t, int) {}, .on_failure = [](const Status&) {}};
  const auto exchange = MakeNodeExchange(options, &links);
  asked.ring = links != nullptr;
  EXPECT_EQ(exchange.ok(), asked.ring) << exchange.status();
  return asked;
}

TEST(MakeNodeExchange, ReplicasOnGpusSumByNccl) {
  const Asked asked = Ask("cuda:0", "");
  EXPECT_THAT(asked.nccl, ElementsAre(Pair(0, 2)));
  EXPECT_FALSE(asked.ring);
}

TEST(MakeNodeExchange, ReplicasOnCpusSumByARing) {
  const Asked asked = Ask("cpu", "");
  EXPECT_THAT(asked.nccl, IsEmpty());
  EXPECT_TRUE(asked.ring);
}

TEST(MakeNodeExchange, NcclEncryptsNothingSoTlsForbidsItUnlessTheTableAllowsIt) {
  const Asked encrypted = Ask("cuda:0", "transport { tls: true }");
  EXPECT_THAT(encrypted.nccl, IsEmpty());
  EXPECT_TRUE(encrypted.ring);
  const Asked allowed = Ask("cuda:0", "transport { tls: true clear: ALLOWED }");
  EXPECT_THAT(allowed.nccl, ElementsAre(Pair(0, 2)));
  EXPECT_FALSE(allowed.ring);
}

}  // namespace
}  // namespace hp
