#include "commands/job_hosts.h"

#include "base/format.h"
#include "base/input_file.h"
#include "base/words.h"
#include "commands/slurm_hosts.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace hp {
namespace {

constexpr char kHostFile[] = "hostfile:";
constexpr char kKubernetes[] = "kubernetes:";
constexpr int kMostSlots = 100'000;

using Names = std::vector<std::string>;

Status CheckTasks(const std::string& source, const Names& hosts, int nodes) {
  if (hosts.size() == static_cast<size_t>(nodes)) return OkStatus();
  Names once = hosts;
  once.erase(std::unique(once.begin(), once.end()), once.end());
  const bool slurm = source == "slurm";
  const std::string where = slurm ? "the allocation on " + Join(once) : source == "ranks" ? "WORLD_SIZE" : "it";
  const std::string more = slurm ? Format("ask for %d (sbatch --ntasks=%d)", nodes, nodes) : Format("start %d", nodes);
  return InvalidArgument(
      "--hosts=%s: %s has %zu task(s), and the table %d node(s); expected a task for each node: %s, or give the table "
      "%zu (--conv, --fc)",
      source.c_str(), where.c_str(), hosts.size(), nodes, more.c_str(), hosts.size());
}

StatusOr<Names> SlurmHosts(const EnvironmentReader& read) {
  const bool step = !read("SLURM_STEP_NUM_TASKS").empty();
  const char* const list_name = step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const char* const counts_name = step ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  const std::string list_text = read(list_name), counts_text = read(counts_name);
  if (list_text.empty() || counts_text.empty()) {
    return InvalidArgument("--hosts=slurm: %s is not set; expected to run in an allocation (sbatch, salloc)",
                           list_text.empty() ? list_name : counts_name);
  }
  const StatusOr<Names> list = ExpandHostList(list_text);
  if (!list.ok()) return list.status().Prepend(list_name);
  const StatusOr<std::vector<int>> counts = ExpandCounts(counts_text);
  if (!counts.ok()) return counts.status().Prepend(counts_name);
  if (counts->size() != list->size()) {
    return InvalidArgument("%s is \"%s\", and %s \"%s\"; expected a count for each host", list_name, list_text.c_str(),
                           counts_name, counts_text.c_str());
  }
  Names hosts;
  for (size_t i = 0; i < list->size(); ++i) hosts.insert(hosts.end(), (*counts)[i], (*list)[i]);
  return hosts;
}

/// A line of a host file. @return false: it is malformed.
bool AppendLine(const std::string& line, Names* hosts) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string host, slots;
  if (!(words >> host)) return true;
  words >> slots;
  const size_t colon = host.find(':');
  if (colon != host.npos && slots.empty() && host.find(':', colon + 1) == host.npos) {  // not of an IPv6 address
    slots = "slots=" + host.substr(colon + 1);
    host.resize(colon);
  }
  int count = 1;
  if (slots.starts_with("slots=")) {
    const char* const begin = slots.data() + 6;
    const auto [end, error] = std::from_chars(begin, slots.data() + slots.size(), count);
    if (error != std::errc() || end != slots.data() + slots.size() || count < 1 || count > kMostSlots) return false;
  } else if (!slots.empty()) {
    return false;
  }
  hosts->insert(hosts->end(), count, host);
  return true;
}

StatusOr<Names> FileHosts(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  std::istringstream lines(text);
  Names hosts;
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    if (AppendLine(line, &hosts)) continue;
    return InvalidArgument("%s:%d: \"%s\"; expected HOST, HOST:N or HOST slots=N", path.c_str(), number,
                           Printable(line).c_str());
  }
  return hosts;
}

StatusOr<Names> PodHosts(const std::string& names, int nodes) {
  const size_t dot = names.find('.');
  if (dot == names.npos || dot == 0 || dot + 1 == names.size()) {
    return InvalidArgument(
        "--hosts=%s%s: expected kubernetes:JOB.SERVICE, the names of an indexed Job and of its "
        "headless service",
        kKubernetes, names.c_str());
  }
  Names hosts;
  for (int i = 0; i < nodes; ++i) hosts.push_back(names.substr(0, dot) + "-" + std::to_string(i) + names.substr(dot));
  return hosts;
}

StatusOr<Names> RankHosts(const EnvironmentReader& read) {
  const std::string host = read("MASTER_ADDR"), all = read("WORLD_SIZE"), here = read("LOCAL_WORLD_SIZE");
  for (const char* name : {"MASTER_ADDR", "WORLD_SIZE"}) {
    if (read(name).empty()) return InvalidArgument("--hosts=ranks: the environment variable %s is not set", name);
  }
  if (all != "1" && all != here) {
    return InvalidArgument(
        "--hosts=ranks: of the %s tasks, %s run on MASTER_ADDR (LOCAL_WORLD_SIZE), and no variable says where the "
        "others do; expected --hosts=HOST,... in the order of RANK",
        Printable(all).c_str(), here.empty() ? "an unknown number" : Printable(here).c_str());
  }
  HP_ASSIGN_OR_RETURN(const std::vector<int> count, ExpandCounts(all));
  return Names(count.at(0), host);
}

StatusOr<Names> HostsFrom(const std::string& source, int nodes, const EnvironmentReader& read) {
  if (source == "slurm") return SlurmHosts(read);
  if (source == "ranks") return RankHosts(read);
  if (source.starts_with(kHostFile)) return FileHosts(source.substr(sizeof(kHostFile) - 1));
  return PodHosts(source.substr(sizeof(kKubernetes) - 1), nodes);
}

/// Apart from a device: a slash may also stand in a file's name, but no device has one.
size_t DeviceOf(const std::string& hosts) {
  const size_t slash = hosts.rfind('/');
  if (slash == hosts.npos) return slash;
  const std::string device = hosts.substr(slash + 1);
  return device == "cpu" || device.starts_with("cuda") ? slash : hosts.npos;
}

}  // namespace

bool AreJobHosts(const std::string& hosts) {
  const std::string source = hosts.substr(0, DeviceOf(hosts));
  return source == "slurm" || source == "ranks" || source.starts_with(kHostFile) || source.starts_with(kKubernetes);
}

StatusOr<std::vector<std::string>> JobHosts(const std::string& text, int nodes, const EnvironmentReader& read) {
  const size_t slash = DeviceOf(text);
  const std::string source = text.substr(0, slash);
  HP_ASSIGN_OR_RETURN(Names hosts, HostsFrom(source, nodes, read));
  HP_RETURN_IF_ERROR(CheckTasks(source, hosts, nodes));
  if (slash != text.npos) {
    for (std::string& host : hosts) host += text.substr(slash);
  }
  return hosts;
}

StatusOr<Names> JobHostsToPlan(const std::string& text, const EnvironmentReader& read) {
  const size_t slash = DeviceOf(text);
  const std::string source = text.substr(0, slash);
  if (source.starts_with(kKubernetes)) {
    return InvalidArgument("--hosts=%s goes with --conv and --fc: a Job has as many pods as its table has nodes",
                           text.c_str());
  }
  if (text.ends_with("/cuda")) {
    return InvalidArgument(
        "--hosts=%s: a plan has to know the GPUs of a host; expected %s/cuda:0-3 or the like, and tasks that see all "
        "of them (srun --gpus-per-node)",
        text.c_str(), source.c_str());
  }
  HP_ASSIGN_OR_RETURN(const Names tasks, HostsFrom(source, 0, read));
  Names hosts;
  for (const std::string& host : tasks) {
    const std::string entry = host + (slash == text.npos ? "" : text.substr(slash));
    if (std::find(hosts.begin(), hosts.end(), entry) == hosts.end()) hosts.push_back(entry);
  }
  return hosts;
}

StatusOr<TaskPlacement> PlaceTasks(const Names& node_hosts, const Names& hosts) {
  TaskPlacement placement;
  size_t next = 0;  // of hosts, behind that of the nodes so far
  for (const std::string& host : node_hosts) {
    if (!placement.hosts.empty() && placement.hosts.back() == host) continue;
    while (next < hosts.size() && hosts[next] != host) ++next;
    if (next == hosts.size()) {
      return InvalidArgument("the plan's nodes are not in the order of the hosts: %s is behind %s", host.c_str(),
                             placement.hosts.empty() ? "no host" : placement.hosts.back().c_str());
    }
    placement.hosts.push_back(hosts[next++]);
  }
  for (const std::string& host : placement.hosts) {
    const int own = static_cast<int>(std::count(node_hosts.begin(), node_hosts.end(), host));
    if (placement.nodes_per_host == 0) placement.nodes_per_host = own;
    if (own == placement.nodes_per_host) continue;
    return InvalidArgument("the plan has %d node(s) on %s and %d on %s; expected as many on each host", own,
                           host.c_str(), placement.nodes_per_host, placement.hosts[0].c_str());
  }
  return placement;
}

StatusOr<int> JobPort(const std::string& hosts, int otherwise, const EnvironmentReader& read) {
  const std::string text = read("MASTER_PORT");
  if (hosts.substr(0, DeviceOf(hosts)) != "ranks" || text.empty()) return otherwise;
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535) return port;
  return InvalidArgument("the environment variable MASTER_PORT is \"%s\"; expected 1 to 65535",
                         Printable(text).c_str());
}

}  // namespace hp
