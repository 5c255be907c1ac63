#pragma once

#include "checkpoint/snapshot.h"
#include "snapshot/snapshotter.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace hp::test {

/// Carries what the snapshotters of one job post to each other, on a thread of its own as a transport's progress thread
/// would. Writes of a node can be held back.
class Wire {
 public:
  struct Handler {
    std::function<void(Rank, const PlaceTag&, RemoteGrant)> on_granted;
    std::function<void(const Status&)> on_grant_ended;
    std::function<void(const PlaceTag&)> on_write_ended;
  };

  struct Message {
    uint32_t type = 0;
    std::string bytes;
  };

  explicit Wire(int nodes);
  ~Wire();
  /// Nothing arrives any more.
  void Stop();
  /// Before anything is posted.
  void SetHandler(Rank rank, Handler handler) { handlers_[rank] = std::move(handler); }
  Transport* transport(Rank rank);
  /// From now on no write of `rank` arrives.
  void Hold(Rank rank);
  void Release(Rank rank);
  /// Messages of `rank` to `peer` since the last call; they arrive nowhere else.
  std::vector<Message> TakeSent(Rank rank, Rank peer);
  /// The peers whose connections `rank` broke.
  std::set<Rank> broken(Rank rank);

 private:
  class NodeTransport;
  struct Grant {
    Rank owner = 0, writer = 0;
    PlaceTag tag;
    std::span<std::byte> place;
  };
  struct Event {
    bool write = false;
    uint32_t grant = 0;
    std::span<const std::byte> source = {};
  };
  void Run();
  void Deliver(const Event& event, const Grant& grant);

  std::vector<std::unique_ptr<NodeTransport>> transports_;
  std::map<Rank, Handler> handlers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::vector<Grant> grants_;
  std::set<Rank> held_;
  std::set<std::pair<Rank, Rank>> broken_;
  std::map<std::pair<Rank, Rank>, std::vector<Message>> sent_;
  bool stop_ = false;
  std::thread thread_;
};

/// Three nodes whose parameters are cut in every way: whole on the first node, in columns, in rows, frozen, and with
/// parts that are empty.
class SnapshotJob {
 public:
  static constexpr int kNodes = 3;

  /// @param options of the first node; rank and file names are filled in.
  /// @param others of the other nodes: SnapshotContents::before_step.
  SnapshotJob(const std::string& folder, Snapshotter::Options options,
              std::function<void(const std::string& step)> others = nullptr);
  ~SnapshotJob();

  Snapshotter& first() { return *snapshotters_[0]; }
  Wire& wire() { return wire_; }
  const std::vector<WholeParam>& params() const { return params_; }
  /// What element i of a parameter is at `clock`. @param array 0: its value; else in that history.
  static std::vector<float> Numbers(size_t param, int64_t count, int64_t clock, int array);
  /// All nodes reach version `clock`.
  void Train(int64_t clock);
  /// Train, and all nodes begin a copy of it; the first node last. @param start Snapshotter::Begin's.
  void Begin(int64_t clock, bool files, bool pull, int64_t start = 0);
  /// All nodes finish. @return the first node's.
  Status Finish();
  /// Whether the snapshot of `clock` is there, with every number where it belongs.
  bool IsThere(int64_t clock) const;
  std::string prefix() const { return folder_ + "/net"; }

 private:
  const std::string folder_;
  std::vector<WholeParam> params_;
  std::vector<std::unique_ptr<ParamStore>> stores_;
  Wire wire_{kNodes};
  std::vector<std::unique_ptr<Snapshotter>> snapshotters_;
};

}  // namespace hp::test
