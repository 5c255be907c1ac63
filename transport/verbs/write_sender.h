#pragma once

#include "hp/status.h"
#include "transport/grants.h"
#include "transport/transport.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/queue_pair.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace hp {

/// A write that was accepted and is not done.
struct OutgoingWrite {
  PlaceTag tag = {};
  RemoteGrant grant = {};  ///< goes into the immediates
  RemotePlace place = {};  ///< the peer's address, key and number of parts
  size_t bytes = 0;        ///< of source and place
  Source source = {};      ///< released when the write is done
};

/// Sends writes over the data queue pairs. Each is cut into as many contiguous parts as its grant says; part i goes
/// over queue pair i in requests of at most `max_request` bytes, the last one WITH IMMEDIATE and signalled.
/// transport/README.md, "Data queue pairs". Push queues, Pump posts. Guarded by its endpoint's mutex; nothing blocks.
class WriteSender {
 public:
  /// @param qps the data queue pairs, which must outlive it (see TakeAll). @param max_request bytes of one work
  /// request.
  WriteSender(std::vector<QueuePair*> qps, uint64_t max_request) : max_request_(max_request), lanes_(qps.size()) {
    for (size_t i = 0; i < qps.size(); ++i) lanes_[i].qp = qps[i];
  }

  /// Queues a write behind those before.
  void Push(OutgoingWrite write);
  /// Posts what fits, in one list for each queue pair; call again after OnCompletion.
  /// @return kUnavailable: a queue pair accepts no request.
  Status Pump();
  /// The completion of request `id` of data queue pair `lane` came: it and all before it on this queue pair are done.
  /// Appends the tags of writes that are complete with it to *ended.
  void OnCompletion(size_t lane, uint64_t id, std::vector<PlaceTag>* ended);
  /// The write that an outstanding request belongs to, for messages; null: unknown.
  const OutgoingWrite* Find(size_t lane, uint64_t id) const;
  bool idle() const { return writes_.empty(); }  ///< no write is queued or outstanding
  /// Ends all writes, after the queue pairs are destroyed; forgets the queue pairs. @return their tags, in order.
  std::vector<PlaceTag> TakeAll();

 private:
  struct Entry {
    OutgoingWrite write;
    uint16_t parts_left;
  };
  struct Part {
    uint64_t write;  // its number
    size_t offset, end;
  };
  struct Lane {
    QueuePair* qp = nullptr;
    std::deque<Part> parts;
    uint32_t unsignalled = 0;
  };
  void AddRequest(Lane* lane);
  Status PumpLane(Lane* lane);

  const uint64_t max_request_;
  std::vector<Lane> lanes_;
  uint64_t next_number_ = 0;
  std::map<uint64_t, Entry> writes_;  // by number, which is the order of the calls
  // The list under construction.
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> ranges_;
  std::vector<uint64_t> tags_;
};

}  // namespace hp
