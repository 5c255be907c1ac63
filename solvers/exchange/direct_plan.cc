#include "solvers/exchange/direct_plan.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

DirectPlan::Trees::Trees(int size, const std::vector<int>& hosts) {
  CHECK(hosts.empty() || static_cast<int>(hosts.size()) == size);
  std::map<int, int> numbers;
  for (int replica = 0; replica < size; ++replica) {
    const int host = hosts.empty() ? replica : hosts[replica];
    const auto [number, is_new] = numbers.try_emplace(host, static_cast<int>(members.size()));
    if (is_new) members.emplace_back();
    host_of.push_back(number->second);
    members[number->second].push_back(replica);
  }
}

int DirectPlan::Trees::Owner(int block) const {
  const int hosts = static_cast<int>(members.size());
  const std::vector<int>& of_host = members[block % hosts];
  return of_host[block / hosts % static_cast<int>(of_host.size())];
}

// On the owner's host that is the owner itself; elsewhere collectors take turns.
int DirectPlan::Trees::Parent(int replica, int block) const {
  const int owner = Owner(block);
  if (replica == owner) return -1;
  if (host_of[replica] == host_of[owner]) return owner;
  const std::vector<int>& of_host = members[host_of[replica]];
  const int collector = of_host[block % static_cast<int>(of_host.size())];
  return replica == collector ? owner : collector;
}

std::vector<int> DirectPlan::Trees::Blocks(int child, int parent) const {
  std::vector<int> blocks;
  for (int block = 0; block < static_cast<int>(host_of.size()); ++block) {
    if (Parent(child, block) == parent) blocks.push_back(block);
  }
  return blocks;
}

int DirectPlan::Trees::MostBlocks() const {
  int most = 1;
  const int size = static_cast<int>(host_of.size());
  for (int child = 0; child < size; ++child) {
    std::map<int, int> of_parent;
    for (int block = 0; block < size; ++block) {
      const int parent = Parent(child, block);
      if (parent >= 0) most = std::max(most, ++of_parent[parent]);
    }
  }
  return most;
}

DirectPlan::DirectPlan(Options options, const std::vector<int>& host_of)
    : DirectPlan(options, Trees(options.size, host_of)) {}

// Steps are numbered by the place of a block among those that a link has, so that all links share one numbering.
DirectPlan::DirectPlan(Options options, Trees trees)
    : BlockPlan(std::move(options), 2 * trees.MostBlocks()), trees_(std::move(trees)), children_(size()) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    above_[peer] = trees_.Blocks(rank(), peer);
    below_[peer] = trees_.Blocks(peer, rank());
    for (const int block : below_[peer]) children_[block].push_back(peer);
  }
}

uint32_t DirectPlan::NumberOf(const Chunk& chunk, Way way, int peer) const {
  const std::vector<int>& blocks = parent(chunk.block) == peer ? above_.at(peer) : below_.at(peer);
  const auto at = std::lower_bound(blocks.begin(), blocks.end(), chunk.block);
  CHECK(at != blocks.end() && *at == chunk.block);
  return Number({chunk.collective, 2 * static_cast<int>(at - blocks.begin()) + way, chunk.chunk});
}

// What goes up is granted by the parent, what goes down by the child.
std::pair<DirectPlan::Chunk, DirectPlan::Way> DirectPlan::TransferOf(uint32_t number, int peer, bool granted) const {
  const auto [collective, step, chunk] = At(number);
  const Way way = step % 2 == kUp ? kUp : kDown;
  const std::vector<int>& blocks = granted == (way == kUp) ? below_.at(peer) : above_.at(peer);
  const size_t index = static_cast<size_t>(step) / 2;
  CHECK_LT(index, blocks.size());
  return {{collective, blocks[index], chunk}, way};
}

std::vector<size_t> DirectPlan::BytesFrom(int peer) const {
  std::vector<size_t> bytes(places());
  for (uint32_t number = 0; number < places(); ++number) {
    const auto [collective, step, chunk] = At(number);
    const Way way = step % 2 == kUp ? kUp : kDown;
    const std::vector<int>& blocks = way == kUp ? above_.at(peer) : below_.at(peer);
    const size_t index = static_cast<size_t>(step) / 2;
    if (index >= blocks.size()) continue;
    const Range values = ValuesOf(collective, blocks[index], chunk);
    bytes[number] = static_cast<size_t>(values.size()) * ValueBytes(collective, way, rank(), peer);
  }
  return bytes;
}

}  // namespace hp
