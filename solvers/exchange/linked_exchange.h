#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "solvers/exchange/allreduce.h"
#include "solvers/exchange/block_plan.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/peer_links.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// An exchange of gradients in host memory over links to other replicas: allreduces (Ring or DirectAllreduce) of large
/// parameters where they lie, and of small ones in buckets that they are copied to. The thread "exchange" takes what is
/// added and what the links report, makes the sums and calls the callbacks; the executor and the links' thread only
/// leave events for it. No time limit: a slow replica is waited for; whether one is lost is decided by the failure
/// detector, and then Abort ends the wait. The order of each sum follows from the plan alone, so all replicas and all
/// runs get the same bits.
///
/// Add must follow the plan's order of parameters (CHECK). After a failure or Abort other replicas may still write into
/// gradients and into memory of the exchange: stop the transport before either is freed.
class LinkedExchange : public Exchange, private PeerEvents {
 public:
  /// Makes what does the sums, which reports to `on_done`.
  using MakeSums = std::function<StatusOr<std::unique_ptr<Allreduce>>(Allreduce::DoneSink on_done)>;

  /// Starts the thread. @param make_sums called once.
  /// @param params the caller's number of each parameter of the plan, in the plan's order.
  /// @param links must outlive the exchange.
  /// @return the error of `make_sums`, or of PeerLinks::Register.
  static StatusOr<std::unique_ptr<LinkedExchange>> Create(const MakeSums& make_sums, std::vector<int> params,
                                                          PeerLinks* links, Callbacks callbacks);
  ~LinkedExchange() override;
  /// Of the buckets that it allocates, beside what the allreduce does.
  static size_t BucketBytes(const BlockPlan& plan);

  void Add(uint64_t clock, int param, std::span<float> gradient) override HP_EXCLUDES(mutex_);
  /// Sends nothing, since the plan says where a clock ends: checks that all were added, and begins the count anew.
  void Flush(uint64_t clock) override HP_EXCLUDES(mutex_);
  void Abort(const Status& cause) override { End(cause); }

 private:
  /// A parameter that was added, or an event of the links.
  struct Event {
    enum Kind { kAdded, kGranted, kArrived, kWritten, kBroken } kind = kAdded;
    int peer = 0;                    // not of kAdded and kBroken
    LinkPlace place = {};            // of kAdded: its clock
    LinkGrant grant = {};            // of kGranted
    int param = 0;                   // of kAdded: index into the plan's parameters
    std::span<float> gradient = {};  // of kAdded
    Status status = {};              // of kBroken
  };
  /// What a collective is summed in.
  struct Values {
    Buffer bucket;                                // empty: in the one gradient itself
    std::vector<std::span<float>> gradients;      // of its parameters, as far as they were added in this clock
    std::shared_ptr<const void> registered = {};  // the bucket, or the gradient at `at`
    const float* at = nullptr;
  };

  LinkedExchange(std::vector<int> params, PeerLinks* links, Callbacks callbacks);
  Status Prepare(const MakeSums& make_sums);
  const BlockPlan& plan() const { return sums_->plan(); }
  void Push(Event event) HP_EXCLUDES(mutex_);
  void Run();
  /// Waits for events. @return empty: the exchange has ended.
  std::vector<Event> Take() HP_EXCLUDES(mutex_);
  Status Handle(const Event& event);
  void TakeGradient(const Event& added);
  Status StartNext();
  StatusOr<std::span<float>> ValuesOf(int collective);
  void Finish(uint64_t clock, int collective);
  /// The first cause ends the exchange. @return whether it is the first: a failure that Abort caused is no news.
  bool End(const Status& cause) HP_EXCLUDES(mutex_);
  bool ended() const HP_EXCLUDES(mutex_);

  // PeerEvents
  void OnGranted(int peer, const LinkPlace& place, const LinkGrant& grant) override {
    Push({.kind = Event::kGranted, .peer = peer, .place = place, .grant = grant});
  }
  void OnArrived(int peer, const LinkPlace& place) override {
    Push({.kind = Event::kArrived, .peer = peer, .place = place});
  }
  void OnWritten(int peer, const LinkPlace& place) override {
    Push({.kind = Event::kWritten, .peer = peer, .place = place});
  }
  void OnBroken(const Status& status) override { Push({.kind = Event::kBroken, .status = status}); }

  const std::vector<int> params_;
  PeerLinks* const links_;
  const Callbacks callbacks_;

  // Exchange thread.
  std::unique_ptr<Allreduce> sums_;
  std::vector<Values> values_;                     // by collective
  std::deque<std::pair<uint64_t, int>> to_start_;  // clock, collective

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Event> events_ HP_GUARDED_BY(mutex_);
  Status status_ HP_GUARDED_BY(mutex_);  // not ok: why it has ended
  uint64_t clock_ HP_GUARDED_BY(mutex_) = 0;
  size_t added_ HP_GUARDED_BY(mutex_) = 0;  // parameters of clock_
  Thread thread_;
};

}  // namespace hp
