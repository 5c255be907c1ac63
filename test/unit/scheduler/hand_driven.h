#pragma once

#include "test/unit/scheduler/checked_node.h"

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp::test {

/// All nodes of a job on one thread: every message, write, completion, input and task is a step, and a seeded random
/// generator says which comes next. A task is taken, run and reported in three steps, so that what it gives away may
/// have come back before it is reported. With JobSpec::enqueues a node has several tasks under way, in their order, and
/// reports each when it has run it, and later when it is done. Some nodes and links are a hundred times slower than
/// others. Grants and messages of one link and direction keep their order; writes do not always, as over several
/// connections.
class HandDriven {
 public:
  HandDriven(const JobSpec& job, unsigned seed);
  ~HandDriven();

  /// Runs the job to its end. @return what was wrong, one line each; empty if nothing was.
  std::vector<std::string> Run();
  /// Writes that arrived.
  int writes() const { return writes_; }
  /// Tasks that update several groups; exchanges whose end a node hears of while its own task is not reported.
  int shared_updates() const { return shared_updates_; }
  int early_exchanges() const { return early_exchanges_; }
  /// Urgent tasks that were carried out in between another one's layers.
  int interrupts() const { return interrupts_; }
  /// By kind, with JobSpec::enqueues: tasks that were handed out while others of their node were not done.
  const std::map<Task::Kind, int>& followers() const { return followers_; }

 private:
  class LinkTransport;
  struct Event {
    enum Kind { kGranted, kReport, kVerdict, kArrival, kWriteEnded, kExchanged, kPushed, kPulled, kValues } kind;
    Rank from = 0;
    PlaceTag tag = {};
    uint32_t grant = 0;
    int64_t clock = 0;
    std::vector<std::byte> bytes = {};
    std::span<const std::byte> source = {};
    int group = 0;
  };
  struct Grant {
    Rank owner = 0, writer = 0;
    PlaceTag tag;
    std::span<std::byte> place;
    bool used = false;
  };
  struct Queue {
    double speed = 1;
    std::deque<Event> events;
  };
  struct UnderWay {
    Task task;
    bool run = false;  // and not reported
  };
  struct Node {
    std::unique_ptr<CheckedNode> checked;
    std::unique_ptr<LinkTransport> transport;
    std::unique_ptr<Pipeline> pipeline;
    std::vector<UnderWay> tasks;  // one, and an urgent one in between its layers
    double speed = 1, input_speed = 1;
  };
  enum Lane { kControl, kBulk, kCompletion, kExchange };

  double Draw(double speed) { return -std::log(std::uniform_real_distribution<double>(1e-9, 1)(random_)) / speed; }
  double AnySpeed();
  size_t AnyWrite(size_t count);
  void Post(Rank from, Rank to, Lane lane, Event event);
  bool Step();
  bool Execute(Rank rank);
  bool ExecuteAhead(Rank rank);
  bool TakeTask(Node* node);
  void Enqueue(Rank rank, const Task& task);
  void Complete(Rank rank, const Task& task);
  void Exchange(Rank rank, const Task& task);
  void Push(Rank rank, int64_t clock, int group);
  void Serve(Rank server, Rank replica, int64_t clock, int group);
  void Deliver(Rank to, const Event& event);
  void OnReport(int64_t clock);
  bool Finished() const;

  const JobSpec job_;
  std::mt19937 random_;
  std::vector<Node> nodes_;
  std::map<std::tuple<Rank, Rank, Lane>, Queue> queues_;
  std::vector<Grant> grants_;
  std::set<std::tuple<Rank, Rank, PlaceTag>> granted_;  // owner, writer: each once
  std::map<int64_t, int> reports_;
  std::map<std::tuple<int64_t, int, int>, int> exchanges_;  // by clock, stage, group: replicas that gave their part
  std::map<std::tuple<int64_t, int, Rank>, int> pushed_, came_;  // by clock, group, and server or replica: from all
  std::set<std::tuple<int64_t, int, Rank>> updated_;             // by servers
  std::set<std::tuple<int64_t, int, Rank, Rank>> pulled_;        // from servers, by replicas
  int writes_ = 0;
  int shared_updates_ = 0;
  int early_exchanges_ = 0;
  int interrupts_ = 0;
  std::map<Task::Kind, int> followers_;
  std::vector<std::string> faults_;
};

}  // namespace hp::test
