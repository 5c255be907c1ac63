#include "commands/seat_hosts.h"

#include "rendezvous/roster.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

namespace hp {
namespace {

constexpr size_t kLongestName = 253;  // of a host

bool OnOneHost(const NodeRecord& a, const NodeRecord& b) {
  if (a.host_id() != 0 && b.host_id() != 0) return a.host_id() == b.host_id();
  return a.host_name() == b.host_name() && a.address(0) == b.address(0);
}

/// The first process on the host of each process.
std::vector<size_t> FirstOfHost(const std::vector<NodeRecord>& due) {
  std::vector<size_t> firsts;
  for (const NodeRecord& record : due) {
    const auto first =
        std::find_if(due.begin(), due.end(), [&](const NodeRecord& one) { return OnOneHost(one, record); });
    firsts.push_back(static_cast<size_t>(first - due.begin()));
  }
  return firsts;
}

/// What a process says may be any text.
bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '.'; });
}

}  // namespace

std::vector<std::string> PlannedHostNames(const std::vector<NodeRecord>& due,
                                          const std::map<std::string, std::string>& profiles) {
  const std::vector<size_t> firsts = FirstOfHost(due);
  std::vector<std::string> names(due.size());
  std::set<std::string> taken;
  for (const auto& [host, path] : profiles) {
    for (size_t i = 0; i < due.size(); ++i) {
      std::string& name = names[firsts[i]];
      if (name.empty() && IsOnHost(due[i], host) && taken.insert(host).second) name = host;
    }
  }
  for (size_t i = 0; i < due.size(); ++i) {
    std::string& name = names[firsts[i]];
    if (name.empty() && IsName(due[i].host_name()) && taken.insert(due[i].host_name()).second)
      name = due[i].host_name();
    if (name.empty()) name = "host_" + std::to_string(firsts[i]);  // no name of a host has this form
    names[i] = name;
  }
  return names;
}

HostsConfig DescribedHosts(const std::vector<NodeRecord>& due, const std::vector<std::string>& names,
                           const std::map<std::string, std::string>& profiles) {
  HostsConfig hosts;
  std::set<std::string> described;
  for (const std::string& name : names) {
    if (!described.insert(name).second) continue;
    HostConfig* const host = hosts.add_host();
    host->set_name(name);
    std::set<std::string> gpus;
    int nodes = 0, cores = 1;
    int64_t memory_mb = 1;
    for (size_t i = 0; i < due.size(); ++i) {
      if (names[i] != name) continue;
      cores = std::max(cores, due[i].cores());
      memory_mb = std::max<int64_t>(memory_mb, due[i].memory_mb());
      if (due[i].device() == "cpu") {
        ++nodes;
      } else {
        gpus.insert(due[i].device());
      }
    }
    host->set_cores(cores);
    host->set_memory_mb(memory_mb);
    for (const std::string& gpu : gpus) host->add_device(gpu);
    if (gpus.empty()) host->set_nodes(nodes);
    if (!gpus.empty() && nodes > 0) host->add_device("cpu");  // its processors are one more place
    const auto profile = profiles.find(name);
    if (profile != profiles.end()) host->set_profile(std::filesystem::absolute(profile->second).string());
  }
  return hosts;
}

}  // namespace hp
