// What goes wrong inside a node of a running job: all nodes end with its reason.
#include "commands/launch.h"
#include "scheduler/control/membership.h"
#include "scheduler/control/slice_tag.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/log_lines.h"
#include "transport/inproc/inproc_network.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <pthread.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

bool OnProgressThread() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return std::string(name).starts_with("inproc");
}

/// Between a node and its transport. Writes that `keeps` names stay in it for good: the node hears at once that they
/// are done, as it does of bytes that the kernel has taken, and the peer never gets them.
class TappedTransport : public Transport, private TransportHandler {
 public:
  struct Taps {
    std::function<bool(const PlaceTag& tag)> keeps = [](const PlaceTag&) { return false; };
    /// A message of `peer` was handled.
    std::function<void(Rank peer, uint32_t type)> on_message = [](Rank, uint32_t) {};
  };
  TappedTransport(std::unique_ptr<Transport> inner, Taps taps) : inner_(std::move(inner)), taps_(std::move(taps)) {}

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override {
    handler_ = handler;
    return inner_->Start(this, policy);
  }
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override {
    return inner_->Register(memory);
  }
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override {
    return inner_->Grant(peer, tag, place);
  }
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    if (!taps_.keeps(tag)) return inner_->Write(peer, tag, grant, source);
    inner_->Defer([this, peer, tag] { handler_->OnWriteEnded(peer, tag, OkStatus()); });
    return OkStatus();
  }
  Status CancelGrant(Rank peer, RemoteGrant grant) override { return inner_->CancelGrant(peer, grant); }
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override {
    return inner_->Send(peer, type, bytes);
  }
  int64_t LastHeardNs(Rank peer) const override { return inner_->LastHeardNs(peer); }
  int64_t LastSentNs(Rank peer) const override { return inner_->LastSentNs(peer); }
  void Shutdown(Rank peer) override { inner_->Shutdown(peer); }
  void Break(Rank peer, const Status& cause) override { inner_->Break(peer, cause); }
  void Defer(std::function<void()> event) override { inner_->Defer(std::move(event)); }
  void Stop() override { inner_->Stop(); }

 private:
  void OnConnected(Rank peer) override { handler_->OnConnected(peer); }
  void OnConnectFailed(Rank peer, const Status& status) override { handler_->OnConnectFailed(peer, status); }
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override {
    handler_->OnGranted(peer, tag, grant, bytes);
  }
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    handler_->OnGrantEnded(peer, tag, status);
  }
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    handler_->OnWriteEnded(peer, tag, status);
  }
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) override {
    handler_->OnMessage(peer, type, bytes);
    taps_.on_message(peer, type);
  }
  void OnClosed(Rank peer, const Status& status) override { handler_->OnClosed(peer, status); }
  void OnOutOfMemory(const Status& status) override { handler_->OnOutOfMemory(status); }

  const std::unique_ptr<Transport> inner_;
  const Taps taps_;
  TransportHandler* handler_ = nullptr;
};

class FailuresTest : public ContractTest {};

/// The losses of the other replica come by message. Random delays let them be the last ones of an iteration soon.
TEST_F(FailuresTest, MemoryThatTheProgressThreadCannotHave) {
  ClusterSpec table = Table(2, {}, 1, 0, false);
  table.delay_seed = 1;
  table.on_loss = [](int64_t) {
    if (OnProgressThread()) throw std::bad_alloc();
  };
  LogLines errors(google::GLOG_ERROR);
  const Status status = TrainCluster(table, Solver("snapshot_prefix: '" + NewPrefix() + "'", false, 1000)).status;
  EXPECT_EQ(ExitStatus(status), 2) << status;
  EXPECT_THAT(errors.With(""), Contains(HasSubstr("node conv0: out of memory: moving data between nodes")));
  EXPECT_THAT(errors.With(""), Contains(HasSubstr("lost node \"conv0\": out of memory: moving data between nodes")))
      << "the other node says why";
}

/// A node whose slices of the last snapshot the kernel has taken says BYE, which overtakes them, and dies. Nobody
/// misses a node that said BYE but the first one, which waits for the slices. At the first boundary nodes do not know
/// yet that they share a folder.
TEST_F(FailuresTest, ANodeThatDiesBehindItsByeWithASliceUnderWay) {
  const std::string solver = Solver("snapshot: 1 snapshot_prefix: '" + NewPrefix() + "'", false, 1);
  const auto table = RoutingTable::Create(MakeTable(Table(1, {1}, 1, 0, false), solver), solver + ".table");
  ASSERT_TRUE(table.ok()) << table.status();
  InprocOptions network_options;
  network_options.world_size = table->size();
  InprocNetwork network(network_options);
  LogLines errors(google::GLOG_ERROR);
  const Status status = RunNodes(table->size(), [&](Rank rank) {
    TappedTransport::Taps taps;
    if (rank == 1) taps.keeps = &IsSliceTag;
    if (rank == 0) {
      taps.on_message = [&network](Rank peer, uint32_t type) {
        if (type == MemberType(MemberMessage::kBye)) network.Cut(0, peer);
      };
    }
    NodeOptions options;
    options.table = &*table;
    options.rank = rank;
    options.cache_dir = "none";
    options.transport = std::make_unique<TappedTransport>(network.Create(rank), taps);
    return options;
  });
  EXPECT_EQ(ExitStatus(status), 4) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("node \"" + table->node(1).name + "\" ended before its part of the snapshot had arrived: "));
  EXPECT_THAT(errors.With(""), Contains("node conv0: " + status.message())) << "the first node says so";
}

/// Whichever way it is made: by each micro-batch, summed over replicas, or with the update, a few rows at a time.
TEST_F(ContractTest, AGradientThatIsNotFiniteEndsTheJobAtOnce) {
  const ClusterResult later =
      TrainCluster(Table(2, {1}, 2, 0, false), SolverOf(NetOfInfiniteSecondGradients(), "", 1000));
  EXPECT_THAT(later.status.message(), HasSubstr("iteration 1: layer \"conv1\" produced a NaN or infinity"));
  for (const char* layer : {"conv1", "ip1"}) {
    const std::string solver = SolverOf(NetOfInfiniteGradients(layer), "");
    for (const ClusterSpec& table : {Table(1, {}, 1, 0, false), Table(1, {}, 3, 0, false), Table(2, {}, 2, 0, false),
                                     Table(2, {2}, 3, 0, false), Table(1, {1}, 1, 0, true)}) {
      SCOPED_TRACE(layer + (" under " + Describe(table)));
      const ClusterResult result = TrainCluster(table, solver);
      EXPECT_EQ(result.status.code(), StatusCode::kNumeric);
      EXPECT_THAT(result.status.message(),
                  HasSubstr("iteration 0: layer \"" + std::string(layer) + "\" produced a NaN or infinity"));
    }
  }
}

}  // namespace
}  // namespace hp::test
