#include "test/contract/verbs_worlds.h"

#include "test/contract/listening_world.h"
#include "test/support/fake_verbs.h"
#include "transport/verbs/port.h"
#include "transport/verbs/verbs_transport.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <gmock/gmock.h>

#include <utility>

namespace hp {
namespace {

class VerbsWorld : public ListeningWorld {
 public:
  /// @param fabric null: this host's devices.
  VerbsWorld(const WorldOptions& options, const VerbsSettings& settings, const std::vector<std::string>& addresses,
             std::unique_ptr<FakeFabric> fabric, int64_t spin_ns = ConnectOptions().spin_ns,
             const std::optional<JobKeys>& keys = {})
      : ListeningWorld(options, addresses, spin_ns, keys), settings_(settings), fabric_(std::move(fabric)) {}
  ~VerbsWorld() override {
    hosts_.clear();  // they tell the fabric what is left over
    if (!fabric_) return;
    EXPECT_THAT(fabric_->faults(), testing::IsEmpty());
    EXPECT_EQ(fabric_->counts().overruns, 0);
  }

  std::unique_ptr<Transport> Create(Rank rank) override {
    VerbsOptions options;
    options.connect = NodeOptions(rank);
    options.tcp_link = MakeTcpLink;
    options.settings = settings_;
    if (fabric_) {
      hosts_.push_back(std::make_unique<FakeVerbs>(fabric_.get()));
      options.verbs = hosts_.back().get();
    }
    auto transport = MakeVerbsTransport(options, TakeListener(rank));
    CHECK(transport.ok()) << transport.status();
    return *std::move(transport);
  }

 private:
  const VerbsSettings settings_;
  std::unique_ptr<FakeFabric> fabric_;
  std::vector<std::unique_ptr<FakeVerbs>> hosts_;
};

}  // namespace

TransportKind FakeVerbsKind(const std::string& name, bool delayed, const VerbsSettings& settings,
                            const std::optional<JobKeys>& keys) {
  return {name,
          [=](const WorldOptions& options) -> std::unique_ptr<TransportWorld> {
            auto fabric = std::make_unique<FakeFabric>(FakeFabric::Options{.delayed = delayed, .seed = 7});
            return std::make_unique<VerbsWorld>(options, settings, std::vector<std::string>{"127.0.0.1"},
                                                std::move(fabric), delayed ? 0 : ConnectOptions().spin_ns, keys);
          },
          ""};
}

TransportKind RealVerbsKind(const std::string& name, const VerbsSettings& settings) {
  const std::vector<std::string> addresses = RdmaAddresses();
  return {name,
          [=](const WorldOptions& options) -> std::unique_ptr<TransportWorld> {
            return std::make_unique<VerbsWorld>(options, settings, addresses, nullptr);
          },
          addresses.empty() ? "no active RDMA device with an IPv4 address (test/rdma-vm/run has two)" : ""};
}

std::vector<std::string> RdmaAddresses() {
  std::vector<std::string> addresses;
  const DeviceList devices(RealVerbs());
  for (ibv_device* device : devices) {
    const ContextHandle context(RealVerbs()->OpenDevice(device), {RealVerbs()});
    ibv_port_attr port = {};
    if (!context || RealVerbs()->QueryPort(context.get(), 1, &port) != 0 || port.state != IBV_PORT_ACTIVE) continue;
    for (const GidEntry& gid : ReadGids(RealVerbs(), context.get(), 1, port.gid_tbl_len)) {
      char text[INET_ADDRSTRLEN] = "";
      if (gid.roce_version == 2 && gid.ipv4())
        addresses.push_back(inet_ntop(AF_INET, &gid.gid[12], text, sizeof(text)));
    }
  }
  return addresses;
}

}  // namespace hp
