// What goes wrong inside a node of a running job: all nodes end with its reason.
#include "commands/launch.h"
#include "scheduler/control/exchange_tag.h"
#include "scheduler/control/membership.h"
#include "scheduler/control/slice_tag.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/log_lines.h"
#include "transport/inproc/inproc_network.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <pthread.h>

#include <atomic>
#include <cmath>
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

/// Whether tensors of the pipeline are moved for it.
bool IsPipelineTag(const PlaceTag& tag) { return !IsSliceTag(tag) && !IsExchangeTag(tag); }

/// Between a node and its transport. Writes that `keeps` names stay in it for good: the node hears at once that they
/// are done, as it does of bytes that the kernel has taken, and the peer never gets them. Grants and writes that
/// `refuses` names are not accepted, as where no more memory may be locked.
class TappedTransport : public Transport, private TransportHandler {
 public:
  struct Taps {
    std::function<bool(const PlaceTag& tag)> keeps = [](const PlaceTag&) { return false; };
    std::function<bool(const PlaceTag& tag, bool grant)> refuses = [](const PlaceTag&, bool) { return false; };
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
    if (taps_.refuses(tag, true)) return FailedPrecondition("no memory can be locked");
    return inner_->Grant(peer, tag, place);
  }
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    if (taps_.refuses(tag, false)) return FailedPrecondition("no memory can be locked");
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

class FailuresTest : public ContractTest {
 protected:
  /// Trains with the taps that `taps_of` makes for each node.
  Status TrainTapped(const ClusterSpec& spec, const std::string& solver,
                     const std::function<TappedTransport::Taps(Rank rank, InprocNetwork* network)>& taps_of) {
    const auto table = RoutingTable::Create(MakeTable(spec, solver), solver + ".table");
    if (!table.ok()) return table.status();
    InprocOptions network_options;
    network_options.world_size = table->size();
    InprocNetwork network(network_options);
    return RunNodes(table->size(), [&](Rank rank) {
      NodeOptions options;
      options.table = &*table;
      options.rank = rank;
      options.cache_dir = "none";
      options.one_process = true;  // no copies beside the transport
      options.transport = std::make_unique<TappedTransport>(network.Create(rank), taps_of(rank, &network));
      return options;
    });
  }
  /// Of node `rank`: it loses its connection to a node that says BYE.
  static std::function<void(Rank peer, uint32_t type)> CutAtBye(InprocNetwork* network, Rank rank) {
    return [network, rank](Rank peer, uint32_t type) {
      if (type == MemberType(MemberMessage::kBye)) network->Cut(rank, peer);
    };
  }
};

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
  LogLines errors(google::GLOG_ERROR);
  const Status status = TrainTapped(Table(1, {1}, 1, 0, false), solver, [](Rank rank, InprocNetwork* network) {
    TappedTransport::Taps taps;
    if (rank == 1) taps.keeps = &IsSliceTag;
    if (rank == 0) taps.on_message = CutAtBye(network, 0);
    return taps;
  });
  EXPECT_EQ(ExitStatus(status), 4) << status;
  EXPECT_THAT(status.message(), HasSubstr("node \"fc0_0\" ended before its part of the snapshot had arrived: "));
  EXPECT_THAT(errors.With(""), Contains("node conv0: " + status.message())) << "the first node says so";
}

/// The same with an activation of the last test, behind which no node waits for others.
TEST_F(FailuresTest, ANodeThatDiesBehindItsByeWithATensorUnderWay) {
  constexpr int kIterations = 9;  // then there is a test
  const Status status =
      TrainTapped(Table(1, {1}, 1, 0, false), Solver("", false, kIterations), [&](Rank rank, InprocNetwork* network) {
        TappedTransport::Taps taps;
        if (rank == 0) {
          taps.keeps = [](const PlaceTag& tag) {
            return IsPipelineTag(tag) && MsgId{tag.msg_id} == MsgId::Make(kIterations, false, 1, 0);
          };
        } else {
          taps.on_message = CutAtBye(network, rank);
        }
        return taps;
      });
  EXPECT_EQ(ExitStatus(status), 4) << status;
  EXPECT_THAT(status.message(), HasSubstr("the connection was cut"));
}

/// The peer is there, so that nobody but the node itself can end the job.
TEST_F(FailuresTest, APlaceOrATensorThatCannotBePosted) {
  const std::string solver = Solver("snapshot: 1 snapshot_prefix: '" + NewPrefix() + "'", false, 3);
  ClusterSpec served = Table(2, {2}, 2, 1, false);
  served.ps = {{0, 1}};
  const auto is_exchange = [](const PlaceTag& tag) { return IsExchangeTag(tag); };
  struct Case {
    const char* what;
    ClusterSpec table;
    std::function<bool(const PlaceTag& tag)> of;
  };
  for (const Case& c : {Case{"the pipeline's", Table(2, {2}, 2, 1, false), IsPipelineTag},
                        Case{"a ring's", Table(2, {}, 1, 0, false), is_exchange},
                        Case{"a server's or its client's", served, is_exchange},
                        Case{"a snapshot's", Table(1, {2}, 1, 0, false), &IsSliceTag}}) {
    for (const bool grant : {true, false}) {
      SCOPED_TRACE(std::string(c.what) + (grant ? " grant" : " write"));
      std::atomic<int> posts = 0;
      const Status status = TrainTapped(c.table, solver, [&](Rank, InprocNetwork*) {
        TappedTransport::Taps taps;
        taps.refuses = [&c, &posts, grant](const PlaceTag& tag, bool is_grant) {
          return c.of(tag) && is_grant == grant && ++posts == 2;
        };
        return taps;
      });
      EXPECT_GE(posts, 2);
      EXPECT_EQ(ExitStatus(status), 2) << status;
      EXPECT_THAT(status.message(), HasSubstr("no memory can be locked"));
    }
  }
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

/// As Caffe: it is printed, and training goes on.
TEST_F(ContractTest, AValueThatHasNoPartInTheLossMayBeNaN) {
  const std::string net =
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'log' type: 'Log' bottom: 'ip1' top: 'log' propagate_down: false }\n"
      "layer { name: 'mean' type: 'Reduction' bottom: 'log' top: 'mean' reduction_param { operation: MEAN } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' }\n";
  LogLines lines(google::GLOG_INFO);
  const ClusterResult result = TrainCluster(Table(2, {}, 2, 0, false), SolverOf(net, "", 0.02, 0, 30));
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(lines.With("mean = "), Contains(HasSubstr("nan")));
  for (const auto& [clock, loss] : result.losses) EXPECT_TRUE(std::isfinite(loss)) << "iteration " << clock;
}

}  // namespace
}  // namespace hp::test
