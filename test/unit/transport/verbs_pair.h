#pragma once

#include "test/contract/fixtures.h"
#include "test/support/fake_verbs.h"
#include "transport/verbs/verbs_transport.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Two nodes with adapters of FakeVerbs. Everything is checked to be given back at the end.
class VerbsPair {
 public:
  struct Options {
    VerbsSettings settings = {};
    bool fall_back = false;
    bool delayed = false;
    std::array<std::vector<FakeVerbs::Device>, 2> devices = {{{FakeVerbs::Roce()}, {FakeVerbs::Roce()}}};
    std::string sys_root = "/sys";
    int handshake_deadline_ms = 20'000;
    int others = 0;  ///< further nodes, from rank 2 on
  };
  VerbsPair() : VerbsPair(Options{}) {}
  explicit VerbsPair(Options options);
  ~VerbsPair();

  /// Makes a node's transport; not ok: why there is none.
  Status Make(Rank rank);
  /// All nodes, started and connected.
  void Connect();
  TestNode& node(Rank rank) { return *nodes_[rank]; }
  FakeVerbs& host(Rank rank) { return *hosts_[rank]; }
  FakeFabric& fabric() { return fabric_; }
  void Close(Rank rank) { nodes_[rank].reset(); }
  int port(Rank rank) const { return peers_[rank].port; }

  /// `to` grants `place` to `from`. @return the grant as `from` sees it.
  RemoteGrant Grant(Rank to, Rank from, const PlaceTag& tag, std::span<std::byte> place);
  /// The whole way: grant, write, end on both sides.
  void Transfer(Rank from, Rank to, const PlaceTag& tag, std::span<const std::byte> source, std::span<std::byte> place);

 private:
  const Options options_;
  FakeFabric fabric_;
  std::vector<std::unique_ptr<FakeVerbs>> hosts_;
  std::vector<std::unique_ptr<TcpListener>> listeners_;
  std::vector<PeerAddress> peers_;
  std::vector<std::unique_ptr<TestNode>> nodes_;
};

/// What a host's queue pairs were given when they went into `state`.
std::vector<ibv_qp_attr> ModifiedTo(FakeVerbs& host, ibv_qp_state state);

}  // namespace hp
