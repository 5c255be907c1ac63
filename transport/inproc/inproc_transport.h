#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/inproc/endpoint.h"
#include "transport/inproc/inproc_network.h"
#include "transport/inproc/mailbox.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace hp {

class InprocTransport;

/// Somebody who has started. `transport` is only used in events of `mailbox`, which end before it does.
struct InprocAddress {
  Rank rank = -1;
  bool client = false;
  std::shared_ptr<Mailbox> mailbox;
  InprocTransport* transport = nullptr;
};

/// Who has started, by what InprocNetwork and the transports share.
struct InprocHub {
  explicit InprocHub(InprocOptions options) : options(std::move(options)) {}

  const InprocOptions options;
  Mutex mutex;
  std::map<Rank, InprocAddress> nodes HP_GUARDED_BY(mutex);
  std::vector<InprocAddress> clients HP_GUARDED_BY(mutex);  // with the rank that they want to talk to
};

class InprocTransport : public Transport {
 public:
  /// @param rank our own; of a client: the only one to connect to.
  InprocTransport(std::shared_ptr<InprocHub> hub, Rank rank, bool client);
  ~InprocTransport() override { Stop(); }

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override;
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override;
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override;
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override;
  Status CancelGrant(Rank peer, RemoteGrant grant) override;
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  int64_t LastHeardNs(Rank peer) const override;
  void Shutdown(Rank peer) override;
  void Stop() override;

  /// Begins a handshake with `to`. Own progress thread, as all below.
  void Dial(const InprocAddress& to);
  /// Breaks the connection to `peer`, if there is one.
  void Cut(Rank peer);

 private:
  struct Connection {
    std::shared_ptr<InprocLink> link;
    InprocEndpoint* endpoint = nullptr;
  };

  void OnHello(const InprocAddress& from, const std::shared_ptr<InprocLink>& link, const std::string& hello);
  /// @param granted_rank what we are to the one who answers.
  void OnAnswer(const InprocAddress& from, const std::shared_ptr<InprocLink>& link, const std::string& hello,
                Rank granted_rank);
  void OnRefused(Rank peer, const std::shared_ptr<InprocLink>& link, const Status& reason);
  void Connect(Rank peer, const std::shared_ptr<InprocLink>& link, int side);
  StatusOr<Rank> Judge(const std::string& hello);
  void DropClosed() HP_EXCLUDES(mutex_);
  void ReportMissing();
  void Run();
  Connection Find(Rank peer) const HP_EXCLUDES(mutex_);

  const std::shared_ptr<InprocHub> hub_;
  const InprocAddress self_;
  TransportHandler* handler_ = nullptr;
  HandshakePolicy* policy_ = nullptr;
  std::set<Rank> settled_;  // ranks with an outcome that was reported; progress thread
  std::map<std::shared_ptr<InprocLink>, InprocEndpoint*> links_;  // and our side; progress thread, and Stop after it

  mutable Mutex mutex_;
  std::map<Rank, Connection> connections_ HP_GUARDED_BY(mutex_);
  Thread progress_;
};

}  // namespace hp
