#pragma once

#include "scheduler/planner/hosts.h"
#include "scheduler/planner/predict.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace hp {

/// How many nodes of each kind a table has, and which of them take the fastest places.
struct NodeCounts {
  int replicas = 1, shards = 0;
  int servers = 0;        ///< of parameters, each with a node of its own
  bool beside = false;    ///< shard i lies on the node of replica i; those beyond have nodes of their own
  bool fc_first = false;  ///< shards take the fastest places, else replicas do

  /// Shards that lie on the nodes of replicas.
  int shards_beside() const { return beside && shards > 0 ? std::min(shards, replicas) : 0; }
  auto operator<=>(const NodeCounts&) const = default;
};

/// The places of a table's nodes: indices into Hosts::places.
struct NodePlaces {
  std::vector<int> conv, fc, ps;  ///< of replicas; of shards and of parameter servers that have nodes of their own
};

/// The places of a plan's hosts, fastest first, and what kinds there are: places are of one kind if nothing of them and
/// their hosts differs but the names. Where there are more than a few kinds, neighbours in the order are taken for one
/// another while searching (the rough kinds).
class OrderedHosts {
 public:
  /// @param hosts must outlive it.
  explicit OrderedHosts(const Hosts& hosts) : hosts_(hosts) {}

  /// Once, before anything else. @param seconds that a node alone takes at a place; asked once for each kind.
  void Order(const std::function<double(int place)>& seconds);

  int places() const { return static_cast<int>(order_.size()); }
  /// Whether the rough kinds are the exact ones, and whether there is only one of them.
  bool exact() const { return exact_; }
  bool alike() const;
  /// A place that stands for all of its kind.
  int exact_kind(int place) const { return exact_kind_[place]; }

  /// Parameter servers take the places behind all others.
  NodePlaces PlacesOf(const NodeCounts& counts) const;
  /// Hosts of one kind with as many nodes of each sort are a group. By rough kinds, which are kept; by exact ones.
  const std::vector<HostGroup>& RoughGroups(const NodeCounts& counts);
  std::vector<HostGroup> ExactGroups(const NodeCounts& counts) const { return GroupsOf(counts, exact_kind_); }

 private:
  std::vector<HostGroup> GroupsOf(const NodeCounts& counts, const std::vector<int>& kind) const;

  const Hosts& hosts_;
  std::vector<int> order_;                    // places, fastest first
  std::vector<int> exact_kind_, rough_kind_;  // by place
  bool exact_ = true;
  std::map<NodeCounts, std::vector<HostGroup>> rough_groups_;
};

}  // namespace hp
