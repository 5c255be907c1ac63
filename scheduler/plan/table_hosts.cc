// Checks of the hosts that a table names, as the host that asks resolves them: they need a resolver, and no other part
// of the table.
#include "base/format.h"
#include "scheduler/plan/table_check.h"

#include <algorithm>
#include <map>

namespace hp {
namespace {

bool IsLoopbackName(const std::string& host) {
  return host == "localhost" || host.rfind("127.", 0) == 0 || host == "::1";
}

bool Intersect(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&b](const std::string& x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

}  // namespace

std::vector<std::string> CheckHosts(const RoutingTableConfig& config, const HostResolver& resolve) {
  std::vector<std::string> faults;
  std::map<std::string, std::vector<std::string>> addresses;
  std::map<std::string, int> first_on;
  for (int rank = 0; rank < config.node_size(); ++rank) {
    const std::string& host = config.node(rank).host();
    if (host.empty() || addresses.count(host) > 0) continue;
    first_on[host] = rank;
    if ((addresses[host] = resolve(host)).empty()) {
      faults.push_back(Format("%s: cannot resolve host \"%s\"", NodeLabel(config, rank).c_str(), host.c_str()));
    }
  }
  for (const auto& [host, own] : addresses) {
    const auto elsewhere = std::find_if(addresses.begin(), addresses.end(), [&own = own](const auto& other) {
      return !other.second.empty() && !Intersect(own, other.second);
    });
    if (own.empty() || !IsLoopbackName(host) || elsewhere == addresses.end()) continue;
    faults.push_back(
        Format("%s: host \"%s\" means a different machine on each host; expected the name by which \"%s\" (%s) "
               "reaches it",
               NodeLabel(config, first_on[host]).c_str(), host.c_str(), elsewhere->first.c_str(),
               NodeLabel(config, first_on[elsewhere->first]).c_str()));
  }
  for (int a = 0; a < config.node_size(); ++a) {
    for (int b = a + 1; b < config.node_size(); ++b) {
      const NodeConfig &x = config.node(a), &y = config.node(b);
      if (x.host() == y.host() || x.port() != y.port() || !Intersect(addresses[x.host()], addresses[y.host()]))
        continue;
      faults.push_back(Format("%s and %s are both on port %d of one host, named \"%s\" and \"%s\"",
                              NodeLabel(config, a).c_str(), NodeLabel(config, b).c_str(), x.port(), x.host().c_str(),
                              y.host().c_str()));
    }
  }
  return faults;
}

std::vector<std::vector<Rank>> NodesByHost(const RoutingTableConfig& config, const HostResolver& resolve) {
  struct Host {
    std::vector<std::string> addresses;
    std::vector<Rank> ranks;
  };
  std::vector<Host> hosts;
  std::map<std::string, size_t> known;
  for (Rank rank = 0; rank < config.node_size(); ++rank) {
    const std::string& name = config.node(rank).host();
    auto entry = known.find(name);
    if (entry == known.end()) {
      const std::vector<std::string> own = resolve(name);
      const auto same =
          std::find_if(hosts.begin(), hosts.end(), [&own](const Host& host) { return Intersect(own, host.addresses); });
      entry = known.emplace(name, same - hosts.begin()).first;
      if (same == hosts.end()) hosts.emplace_back();
      std::vector<std::string>& all = hosts[entry->second].addresses;
      all.insert(all.end(), own.begin(), own.end());
    }
    hosts[entry->second].ranks.push_back(rank);
  }
  std::vector<std::vector<Rank>> ranks;
  for (Host& host : hosts) ranks.push_back(std::move(host.ranks));
  return ranks;
}

}  // namespace hp
