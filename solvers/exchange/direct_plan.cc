#include "solvers/exchange/direct_plan.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

DirectPlan::Trees::Trees(int size, const std::vector<int>& hosts) {
  CHECK(hosts.empty() || static_cast<int>(hosts.size()) == size);
  for (int replica = 0; replica < size; ++replica) {
    const int host = hosts.empty() ? replica : hosts[replica];
    CHECK(host >= 0 && host <= std::ssize(members)) << "hosts are numbered in the order of their first replicas";
    if (host == std::ssize(members)) members.emplace_back();
    host_of.push_back(host);
    members[host].push_back(replica);
  }
}

int DirectPlan::Trees::Owner(int block) const {
  const int hosts = static_cast<int>(members.size());
  const std::vector<int>& of_host = members[block % hosts];
  return of_host[block / hosts % static_cast<int>(of_host.size())];
}

// On other hosts than the owner's, collectors take turns.
int DirectPlan::Trees::Collector(int host, int block) const {
  const int owner = Owner(block);
  if (host_of[owner] == host) return owner;
  return members[host][block % static_cast<int>(members[host].size())];
}

int DirectPlan::Trees::Parent(int replica, int block) const {
  const int owner = Owner(block), collector = Collector(host_of[replica], block);
  if (replica == owner) return -1;
  return replica == collector ? owner : collector;
}

std::vector<int> DirectPlan::Trees::Children(int replica, int block) const {
  const int host = host_of[replica];
  if (Collector(host, block) != replica) return {};
  std::vector<int> children = members[host];
  std::erase(children, replica);
  for (int other = 0; Owner(block) == replica && other < std::ssize(members); ++other) {
    if (other != host) children.push_back(Collector(other, block));
  }
  std::sort(children.begin(), children.end());
  return children;
}

// With each other replica of its host, a replica meets in the trees of all blocks that it owns or collects; with one of
// another host, in those of some that it owns.
int DirectPlan::Trees::MostBlocks() const {
  std::vector<int> blocks(host_of.size());
  for (int block = 0; block < std::ssize(host_of); ++block) {
    for (int host = 0; host < std::ssize(members); ++host) {
      const int collector = Collector(host, block);
      if (members[host].size() > 1 || collector == Owner(block)) ++blocks[collector];
    }
  }
  return *std::max_element(blocks.begin(), blocks.end());
}

DirectPlan::DirectPlan(Options options, const std::vector<int>& host_of)
    : DirectPlan(options, Trees(options.size, host_of)) {}

// Steps are numbered by the place of a block among those that a link has, so that all links share one numbering.
DirectPlan::DirectPlan(Options options, Trees trees)
    : BlockPlan(std::move(options), 2 * trees.MostBlocks()), trees_(std::move(trees)) {
  for (int block = 0; block < size(); ++block) {
    if (parent(block) >= 0) links_[parent(block)].above.push_back(block);
    children_.push_back(trees_.Children(rank(), block));
    for (const int child : children_.back()) links_[child].below.push_back(block);
  }
}

uint32_t DirectPlan::NumberOf(const Chunk& chunk, Way way, int peer) const {
  const Link& link = links_.at(peer);
  const std::vector<int>& blocks = parent(chunk.block) == peer ? link.above : link.below;
  const auto at = std::lower_bound(blocks.begin(), blocks.end(), chunk.block);
  CHECK(at != blocks.end() && *at == chunk.block);
  return Number({chunk.collective, 2 * static_cast<int>(at - blocks.begin()) + way, chunk.chunk});
}

// What goes up is granted by the parent, what goes down by the child.
std::pair<DirectPlan::Chunk, DirectPlan::Way> DirectPlan::TransferOf(uint32_t number, int peer, bool granted) const {
  const auto [collective, step, chunk] = At(number);
  const Way way = step % 2 == kUp ? kUp : kDown;
  const Link& link = links_.at(peer);
  const std::vector<int>& blocks = granted == (way == kUp) ? link.below : link.above;
  const size_t index = static_cast<size_t>(step) / 2;
  CHECK_LT(index, blocks.size());
  return {{collective, blocks[index], chunk}, way};
}

std::vector<size_t> DirectPlan::BytesFrom(int peer) const {
  std::vector<size_t> bytes(places());
  const auto link = links_.find(peer);
  if (link == links_.end()) return bytes;
  for (uint32_t number = 0; number < places(); ++number) {
    const auto [collective, step, chunk] = At(number);
    const Way way = step % 2 == kUp ? kUp : kDown;
    const std::vector<int>& blocks = way == kUp ? link->second.above : link->second.below;
    const size_t index = static_cast<size_t>(step) / 2;
    if (index >= blocks.size()) continue;
    const Range values = ValuesOf(collective, blocks[index], chunk);
    bytes[number] = static_cast<size_t>(values.size()) * ValueBytes(collective, way, rank(), peer);
  }
  return bytes;
}

DirectPlan::Traffic DirectPlan::TrafficOfAll() const {
  Traffic traffic;
  const auto add = [&](int collective, int block, Way way, int peer, int64_t* bytes) {
    *bytes += ValuesOfBlock(collective, block) * static_cast<int64_t>(ValueBytes(collective, way, rank(), peer));
  };
  for (int collective = 0; collective < std::ssize(collectives()); ++collective) {
    for (int block = 0; block < size(); ++block) {
      if (const int to = parent(block); to >= 0) {
        add(collective, block, kUp, to, &traffic.sent);
        add(collective, block, kDown, to, &traffic.received);
      }
      for (const int child : children(block)) {
        add(collective, block, kUp, child, &traffic.received);
        add(collective, block, kDown, child, &traffic.sent);
      }
    }
  }
  return traffic;
}

}  // namespace hp
