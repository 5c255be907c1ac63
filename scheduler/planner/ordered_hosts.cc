#include "scheduler/planner/ordered_hosts.h"

#include "base/block.h"

#include <algorithm>
#include <cstdint>

namespace hp {
namespace {

constexpr int kKinds = 6;  // of hosts, while searching

using Figures = std::tuple<double, double, double, const Profile*, double, double, double, int64_t, int64_t, bool>;

/// All that tells one place from another, but names.
Figures FiguresOf(const Hosts& hosts, int place) {
  const HostPlace& at = hosts.places[place];
  const HostInfo& host = hosts.hosts[at.host];
  return {at.speed.flops,
          at.speed.bytes_per_second,
          at.speed.calls_per_second,
          at.profile.get(),
          at.scale,
          host.link_bytes_per_second,
          host.latency_s,
          at.memory_bytes,
          host.memory_bytes,
          at.device == "cpu"};
}

}  // namespace

void OrderedHosts::Order(const std::function<double(int place)>& seconds) {
  std::map<Figures, int> kinds;
  std::map<int, double> seconds_of;  // by kind
  for (int place = 0; place < static_cast<int>(hosts_.places.size()); ++place) {
    const int kind = kinds.try_emplace(FiguresOf(hosts_, place), place).first->second;
    exact_kind_.push_back(kind);
    order_.push_back(place);
    if (!seconds_of.contains(kind)) seconds_of[kind] = seconds(place);
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int a, int b) { return seconds_of[exact_kind_[a]] < seconds_of[exact_kind_[b]]; });
  rough_kind_ = exact_kind_;
  exact_ = kinds.size() <= kKinds;
  if (exact_) return;
  for (int i = 0; i < places(); ++i) {
    const Range range = PartOf(places(), PartHolding(places(), i, kKinds), kKinds);
    rough_kind_[order_[i]] = order_[(range.begin + range.end) / 2];
  }
}

bool OrderedHosts::alike() const {
  return std::all_of(order_.begin(), order_.end(),
                     [this](int place) { return rough_kind_[place] == rough_kind_[order_[0]]; });
}

NodePlaces OrderedHosts::PlacesOf(const NodeCounts& counts) const {
  const int shards = counts.shards - counts.shards_beside();
  const auto conv = order_.begin() + (counts.fc_first ? shards : 0);
  const auto fc = counts.fc_first ? order_.begin() : order_.begin() + counts.replicas;
  const auto ps = order_.begin() + counts.replicas + shards;
  return {{conv, conv + counts.replicas}, {fc, fc + shards}, {ps, ps + counts.servers}};
}

const std::vector<HostGroup>& OrderedHosts::RoughGroups(const NodeCounts& counts) {
  const auto [found, added] = rough_groups_.try_emplace(counts);
  if (added) found->second = GroupsOf(counts, rough_kind_);
  return found->second;
}

std::vector<HostGroup> OrderedHosts::GroupsOf(const NodeCounts& counts, const std::vector<int>& kind) const {
  const NodePlaces nodes = PlacesOf(counts);
  std::vector<HostGroup> by_host(hosts_.hosts.size());
  const auto node_on = [&](int place) -> HostGroup& {
    HostGroup& host = by_host[hosts_.places[place].host];
    host.place = kind[place];
    host.first = place;
    return host;
  };
  for (const int place : nodes.conv) ++node_on(place).replicas;
  for (const int place : nodes.fc) ++node_on(place).shards;
  for (const int place : nodes.ps) ++node_on(place).servers;
  for (int shard = 0; shard < counts.shards_beside(); ++shard) {
    HostGroup& host = node_on(nodes.conv[shard]);
    ++host.shards;
    host.beside = true;
  }
  std::map<std::tuple<int, int, int, int>, size_t> known;
  std::vector<HostGroup> groups;
  for (const HostGroup& host : by_host) {
    if (host.replicas + host.shards + host.servers == 0) continue;
    const auto [found, added] =
        known.try_emplace({host.place, host.replicas, host.shards, host.servers}, groups.size());
    if (added) {
      groups.push_back(host);
    } else {
      ++groups[found->second].hosts;
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const HostGroup& a, const HostGroup& b) {
    return std::tuple(a.replicas == 0, a.servers > 0, a.first) < std::tuple(b.replicas == 0, b.servers > 0, b.first);
  });
  return groups;
}

}  // namespace hp
