#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "snapshot/gathered_model.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace hp {

/// Gives the weights of a running job to clients (model_test), from copies that are made between two updates. A client
/// sends kPullRequest, gets a PullChunk, and asks for the next chunk when it has that one, until the last. Training
/// Parameters that layers share come under each of their names, as in a .caffemodel. Training
/// does not wait for clients: one that is slow costs the memory of its copy; when its connection ends, that is freed.
/// One on the first node, owned by it.
///
/// Memory: at most kMaxModels copies, each shared by all clients that waited for it. Clients that would need one more
/// wait until another client is done. A client that asks for nothing for kIdleNs, though it may, loses its connection.
class PullServer {
 public:
  static constexpr size_t kMaxModels = 2;
  static constexpr int64_t kIdleNs = 10 * kNsPerSecond;

  /// Both must outlive it. @param clock measures idle clients.
  explicit PullServer(Transport* transport, const Clock* clock = Clock::Real())
      : transport_(transport), clock_(clock) {}

  /// A client is connected. Progress thread.
  void OnConnected(Rank client) HP_EXCLUDES(mutex_);
  /// kPullRequest of a client: it asks for the weights, or for its next chunk. Sends the chunk if the client has a
  /// copy, else remembers that it waits; one that asks again while it waits loses its connection. After the last chunk
  /// a further request asks for a new copy. Progress thread.
  /// @param client its rank, kFirstClientRank or more.
  void OnRequest(Rank client) HP_EXCLUDES(mutex_);
  /// The client asked for something else than weights, so it is not idle. Progress thread.
  void OnOtherRequest(Rank client) HP_EXCLUDES(mutex_);
  /// The client's connection has ended; what it held is freed. Progress thread.
  void OnGone(Rank client) HP_EXCLUDES(mutex_);
  /// Once for each iteration report of the first node: whether it is to request a copy, for all clients that wait now.
  /// Drops clients that are silent. True once for each copy, and not again while a client waits for the one requested.
  /// Executor thread, or "completion".
  bool TakeRequest() HP_EXCLUDES(mutex_);
  /// The copy that was requested is complete. Sends its first chunk to each client that it was requested for. Executor,
  /// progress or snapshot thread; copies a chunk for each client, does not block otherwise.
  void OnGathered(std::shared_ptr<const GatheredModel> model) HP_EXCLUDES(mutex_);

 private:
  /// Where a model's next chunk begins.
  struct Position {
    std::shared_ptr<const GatheredModel> model;  // null: none
    size_t param = 0;
    size_t name = 0;     // of the parameter: 0: its owner's; else of WholeParam::users[name - 1]
    int64_t offset = 0;  // within the parameter, in floats
    SharedBlob blob() const;
    int64_t count() const;
    /// Goes past the next chunk. @return whether there is one more.
    bool Advance();
  };
  struct Client {
    bool waits = false;      // for a model
    bool requested = false;  // TakeRequest counted it
    bool served = false;     // a thread is in Serve for it
    int requests = 0;        // that nobody has looked at
    Position next;
    int64_t asked_ns = 0;  // its last request
  };
  /// Answers the client's requests, one after the other, unless another thread does so already.
  void Serve(Rank rank) HP_EXCLUDES(mutex_);
  /// Takes the client's next request. @return the chunk to answer it with; nothing: there is no request, or no answer
  /// to it yet.
  Position TakeNext(Client* client, Rank rank) HP_REQUIRES(mutex_);
  void Send(Rank rank, Position chunk) HP_EXCLUDES(mutex_);
  /// Copies that clients hold.
  size_t models() const HP_REQUIRES(mutex_);
  void DropSilent() HP_REQUIRES(mutex_);

  Transport* const transport_;  // breaks connections under mutex_: lock order is pull server, then transport
  const Clock* const clock_;
  mutable Mutex mutex_;
  std::map<Rank, Client> clients_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
