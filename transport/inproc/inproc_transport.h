#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/inproc/endpoint.h"
#include "transport/inproc/inproc_network.h"
#include "transport/inproc/mailbox.h"
#include "transport/linked_transport.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace hp {

class InprocTransport;

/// A transport that was started, as others reach it. `transport` is used only in events of `mailbox`, which end before
/// the transport does.
struct InprocAddress {
  Rank rank = -1;  ///< a client's: that of the node that it connects to
  bool client = false;
  std::shared_ptr<Mailbox> mailbox;
  InprocTransport* transport = nullptr;
};

/// The registry of started transports, shared by InprocNetwork and the transports.
struct InprocHub {
  explicit InprocHub(InprocOptions options) : options(std::move(options)) {}

  const InprocOptions options;
  Mutex mutex;
  std::map<Rank, InprocAddress> nodes HP_GUARDED_BY(mutex);
  std::vector<InprocAddress> clients HP_GUARDED_BY(mutex);  // with the rank that they want to talk to
};

/// The transport of one node or client of an InprocNetwork, which makes it. Its progress thread runs the events of its
/// mailbox.
class InprocTransport : public LinkedTransport {
 public:
  /// @param rank our own; a client's: that of the only node to connect to.
  InprocTransport(std::shared_ptr<InprocHub> hub, Rank rank, bool client);
  ~InprocTransport() override { Stop(); }

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override;
  void Defer(std::function<void()> event) override { self_.mailbox->Post(0, false, std::move(event)); }
  void Stop() override;

  /// Starts a handshake with `to`. On our own progress thread, as everything below.
  void Dial(const InprocAddress& to);
  /// Breaks the connection to `peer`, if there is one.
  void Cut(Rank peer);

 private:
  void OnHello(const InprocAddress& from, const std::shared_ptr<InprocLink>& link, const std::string& hello);
  /// @param granted_rank what we are to the one who answers.
  void OnAnswer(const InprocAddress& from, const std::shared_ptr<InprocLink>& link, const std::string& hello,
                Rank granted_rank);
  void OnRefused(Rank peer, const std::shared_ptr<InprocLink>& link, const Status& reason);
  void Connect(Rank peer, const std::shared_ptr<InprocLink>& link, int side);
  StatusOr<Rank> Judge(const std::string& hello);
  void DropClosed();
  void ReportMissing();
  void Run();

  const std::shared_ptr<InprocHub> hub_;
  const InprocAddress self_;
  TransportHandler* handler_ = nullptr;
  HandshakePolicy* policy_ = nullptr;
  std::set<Rank> settled_;  // ranks with an outcome that was reported; progress thread
  std::map<std::shared_ptr<InprocLink>, InprocEndpoint*> alive_;  // links and our side; progress thread, then Stop
  Thread progress_;
};

}  // namespace hp
