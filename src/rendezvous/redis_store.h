#pragma once

#include "rendezvous/store.h"

#include <memory>
#include <string>
#include <vector>

struct redisContext;
struct redisReply;

namespace hp {

/// A run's entries in a Redis server, by hiredis: the keys hpnode:RUN:table:K and hpnode:RUN:lease:K, and the hash
/// hpnode:RUN:nodes. The server drops them 90 days after the last write. Connects when it is first used, and again
/// after an error; each call blocks for at most some seconds.
class RedisStore : public RendezvousStore {
 public:
  /// @param password of AUTH; empty: none.
  RedisStore(std::string host, int port, std::string run, std::string password);
  ~RedisStore() override;

  StatusOr<bool> CreateTable(int incarnation, const std::string& entry) override;
  StatusOr<std::optional<std::string>> ReadTable(int incarnation) override;
  Status PutNode(const std::string& nonce, const std::string& entry) override;
  StatusOr<std::map<std::string, std::string>> ReadNodes() override;
  Status RemoveNode(const std::string& nonce) override;
  /// SET NX with a life of 10 s; renewed by a script that looks at the holder and sets the life anew in one step.
  StatusOr<bool> HoldLease(int incarnation, const std::string& holder) override;
  std::string name() const override;

 private:
  struct FreeContext {
    void operator()(redisContext* context) const;
  };
  struct FreeReply {
    void operator()(redisReply* reply) const;
  };
  using Reply = std::unique_ptr<redisReply, FreeReply>;

  Status Connect();
  /// Sends a command and waits for its reply. @return kUnavailable: the connection failed, and is closed;
  /// kInvalidArgument: the server refuses it.
  StatusOr<Reply> Command(const std::vector<std::string>& words);
  StatusOr<std::optional<std::string>> Get(const std::string& key);
  std::string KeyOf(const std::string& rest) const { return "hpnode:" + run_ + ":" + rest; }

  const std::string host_;
  const int port_;
  const std::string run_, password_;
  std::unique_ptr<redisContext, FreeContext> context_;
};

}  // namespace hp
