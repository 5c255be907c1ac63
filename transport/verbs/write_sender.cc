// Each queue pair has a lane of parts. Pump turns the parts at its front into work requests while the send queue has
// room and posts them in one list. Only the last request of a part and every quarter of the queue's depth is signalled;
// a completion retires all requests before it. A request's tag has the number of its write and whether it ends a part;
// a write is done when all its parts are.
#include "transport/verbs/write_sender.h"

#include "transport/verbs/frames.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

// Parts begin at multiples of it, so that no two queue pairs share a page.
constexpr size_t kPartAlign = 4096;
// Of the requests that a queue pair holds, those that may be posted without asking for a completion.
constexpr uint32_t kSignalFraction = 4;

// A request's tag: its write's number, and whether it is the last of its part.
constexpr uint64_t TagOf(uint64_t number, bool last) { return number << 1 | last; }

}  // namespace

void WriteSender::Push(OutgoingWrite write) {
  const uint64_t number = next_number_++;
  const size_t parts = std::min<size_t>(std::max<size_t>(write.place.parts, 1), lanes_.size());
  const size_t share = ((write.bytes + parts - 1) / parts + kPartAlign - 1) / kPartAlign * kPartAlign;
  for (size_t i = 0; i < parts; ++i) {
    const size_t end = i + 1 < parts ? std::min((i + 1) * share, write.bytes) : write.bytes;
    lanes_[i].parts.push_back({number, std::min(i * share, write.bytes), end});
  }
  writes_.emplace(number, Entry{std::move(write), static_cast<uint16_t>(parts)});
}

void WriteSender::AddRequest(Lane* lane) {
  Part& part = lane->parts.front();
  const OutgoingWrite& write = writes_.at(part.write).write;
  const size_t bytes = std::min<size_t>(part.end - part.offset, max_request_);
  const bool last = part.offset + bytes == part.end;
  const bool inlined = write.source.host && bytes > 0 && bytes <= lane->qp->inline_bytes();
  ibv_send_wr request = {};
  request.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.imm_data = htonl(EncodeImmediate(write.grant.index, write.grant.generation));
  request.wr.rdma.remote_addr = write.place.address + part.offset;
  request.wr.rdma.rkey = write.place.key;
  request.num_sge = bytes > 0 ? 1 : 0;
  if (last || ++lane->unsignalled >= lane->qp->depth() / kSignalFraction) {
    request.send_flags |= IBV_SEND_SIGNALED;
    lane->unsignalled = 0;
  }
  if (inlined) request.send_flags |= IBV_SEND_INLINE;
  requests_.push_back(request);
  ranges_.push_back({write.source.address + part.offset, static_cast<uint32_t>(bytes), write.source.lkey});
  tags_.push_back(TagOf(part.write, last));
  part.offset += bytes;
  if (last) lane->parts.pop_front();
}

Status WriteSender::PumpLane(Lane* lane) {
  requests_.clear();
  ranges_.clear();
  tags_.clear();
  while (!lane->parts.empty() && requests_.size() < lane->qp->room()) AddRequest(lane);
  if (requests_.empty()) return OkStatus();
  for (size_t i = 0; i < requests_.size(); ++i) requests_[i].sg_list = &ranges_[i];
  return lane->qp->Post(requests_, tags_);
}

Status WriteSender::Pump() {
  for (Lane& lane : lanes_) HP_RETURN_IF_ERROR(PumpLane(&lane));
  return OkStatus();
}

void WriteSender::OnCompletion(size_t lane, uint64_t id, std::vector<PlaceTag>* ended) {
  lanes_[lane].qp->Retire(id, [&](uint64_t tag) {
    if ((tag & 1) == 0) return;
    const auto it = writes_.find(tag >> 1);
    if (--it->second.parts_left > 0) return;
    ended->push_back(it->second.write.tag);
    writes_.erase(it);
  });
}

const OutgoingWrite* WriteSender::Find(size_t lane, uint64_t id) const {
  const auto it = writes_.find(lanes_[lane].qp->TagOf(id) >> 1);
  return it == writes_.end() ? nullptr : &it->second.write;
}

std::vector<PlaceTag> WriteSender::TakeAll() {
  std::vector<PlaceTag> tags;
  for (const auto& [number, entry] : writes_) tags.push_back(entry.write.tag);
  writes_.clear();
  for (Lane& lane : lanes_) lane = {};
  return tags;
}

}  // namespace hp
