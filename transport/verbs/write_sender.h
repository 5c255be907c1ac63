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

/// A write under way.
struct OutgoingWrite {
  PlaceTag tag = {};
  RemoteGrant grant = {};
  RemotePlace place = {};
  size_t bytes = 0;
  Source source = {};
};

/// Sends writes over the data queue pairs: each is cut into as many contiguous parts as its grant says, part i goes
/// over queue pair i in requests of at most `max_request` bytes, the last of them WITH IMMEDIATE and signalled. Its
/// endpoint's mutex guards it.
class WriteSender {
 public:
  WriteSender(std::vector<QueuePair*> qps, uint64_t max_request) : max_request_(max_request), lanes_(qps.size()) {
    for (size_t i = 0; i < qps.size(); ++i) lanes_[i].qp = qps[i];
  }

  void Push(OutgoingWrite write);
  /// Posts what fits, in one list for each queue pair. @return kUnavailable: a queue pair takes none.
  Status Pump();
  /// The request `id` of data queue pair `lane` is done, and those before it. The tags of writes that ended with it go
  /// to `*ended`.
  void OnCompletion(size_t lane, uint64_t id, std::vector<PlaceTag>* ended);
  /// The write that request `id` belongs to; null: none that is known.
  const OutgoingWrite* Find(size_t lane, uint64_t id) const;
  bool idle() const { return writes_.empty(); }
  /// Ends all that is under way. The queue pairs are gone.
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
