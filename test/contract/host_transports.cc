// The transports that run on any host.
#include "test/contract/copy_worlds.h"
#include "test/contract/listening_world.h"
#include "transport/inproc/inproc_network.h"
#ifdef HP_TEST_VERBS
#include "test/contract/verbs_worlds.h"
#endif

#include <memory>
#include <optional>
#include <vector>

namespace hp {
namespace {

class InprocWorld : public TransportWorld {
 public:
  InprocWorld(const WorldOptions& options, int delay_us)
      : network_({.world_size = options.size,
                  .connect_deadline_ms = options.connect_deadline_ms,
                  .delay = delay_us == 0 ? nullptr : RandomDelays(7, delay_us),
                  .clock = options.clock}) {}
  std::unique_ptr<Transport> Create(Rank rank) override { return network_.Create(rank); }
  std::unique_ptr<Transport> CreateClient(Rank server) override { return network_.CreateClient(server); }

 private:
  InprocNetwork network_;
};

class TcpWorld : public ListeningWorld {
 public:
  explicit TcpWorld(const WorldOptions& options, const std::optional<JobKeys>& keys = {})
      : ListeningWorld(options, {"127.0.0.1"}, ConnectOptions().spin_ns, keys) {}
  std::unique_ptr<Transport> Create(Rank rank) override {
    return MakeTcpTransport(NodeOptions(rank), TakeListener(rank));
  }
};

}  // namespace

int ShortDeadlineMs() { return 2000; }

std::vector<TransportKind> AllTransports() {
  return {
      {"inproc", [](const WorldOptions& options) { return std::make_unique<InprocWorld>(options, 0); }},
      {"inproc_delayed", [](const WorldOptions& options) { return std::make_unique<InprocWorld>(options, 500); }},
      {"tcp", [](const WorldOptions& options) { return std::make_unique<TcpWorld>(options); }},
      {"tcp_tls",
       [](const WorldOptions& options) { return std::make_unique<TcpWorld>(options, JobKeys{.node = true}); }},
      CopyKind("copies_over_inproc",
               [](const WorldOptions& options) { return std::make_unique<InprocWorld>(options, 500); }),
#ifndef __SANITIZE_THREAD__  // which does not see that a message through the kernel puts copies in order
      CopyKind("copies_over_tcp", [](const WorldOptions& options) { return std::make_unique<TcpWorld>(options); }),
#endif
#ifdef HP_TEST_VERBS
      FakeVerbsKind("verbs_fake", /*delayed=*/false, {}),
      // Everything small, so that every queue is full at times.
      FakeVerbsKind("verbs_fake_delayed", /*delayed=*/true,
                    {.qps_per_connection = 4,
                     .send_depth = 16,
                     .control_bytes = 512,
                     .control_receives = 32,
                     .data_receives = 32,
                     .split_bytes = 4096,
                     .max_write_bytes = 50'000}),
      FakeVerbsKind("verbs_fake_tls", /*delayed=*/false, {}, JobKeys{.node = true}),
      CopyKind("copies_over_verbs_fake", FakeVerbsKind("", /*delayed=*/false, {}).make),
      FakeVerbsKind("verbs_fake_rdmacm", /*delayed=*/true, {.qps_per_connection = 2, .setup = QpSetup::kRdmaCm}),
#endif
  };
}

}  // namespace hp
