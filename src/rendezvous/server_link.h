#pragma once

#include "base/mutex.h"

#include "rendezvous/job_rendezvous.h"
#include "rendezvous/server_messages.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace hp {

/// The rendezvous by hpserver: one connection, made when it is first used, and again after it broke.
class ServerLink : public JobRendezvous {
 public:
  /// Makes a transport whose one peer, rank 0, is the server; not started.
  using MakeTransport = std::function<std::unique_ptr<Transport>()>;

  /// @param name for messages. @param keys of the job's token.
  ServerLink(std::string name, const std::optional<JobKeys>& keys, MakeTransport make_transport);
  ~ServerLink() override;

  /// Waits for the server's answer. Errors as the interface's.
  StatusOr<RendezvousAnswer> Tell(NodeRecord record) override;
  std::string name() const override { return name_; }

 private:
  class Connection;

  const std::string name_;
  const bool keys_;  // whether this process has a token
  const EntrySeal seal_;
  const MakeTransport make_transport_;
  std::unique_ptr<Connection> connection_;  // null: there is none
  uint64_t beat_ = 0;
};

}  // namespace hp
