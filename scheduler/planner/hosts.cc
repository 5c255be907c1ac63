#include "scheduler/planner/hosts.h"

#include "base/cores.h"
#include "base/host.h"
#include "proto/text.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_places.h"

#include <cmath>
#include <map>
#include <set>

namespace hp {
namespace {

constexpr int kMostHostNodes = 1024;  // of a host
constexpr double kMostGiga = 1e9;     // of any speed: 10^18 in a second
constexpr double kCoreGflops = 40, kDeviceGflops = 10000, kHostGbPerS = 20, kDeviceGbPerS = 500;
constexpr double kHostCallsPerSecond = 2e5, kDeviceCallsPerSecond = 1e5;

Status CheckSpeed(const std::string& host, const char* field, double value) {
  if (std::isfinite(value) && value > 0 && value <= kMostGiga) return OkStatus();
  return InvalidArgument("%s: %s is %g; expected more than 0, at most 10^9", host.c_str(), field, value);
}

Status CheckCount(const std::string& host, const char* field, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return OkStatus();
  return InvalidArgument("%s: %s is %lld; expected 1 to %lld", host.c_str(), field, static_cast<long long>(value),
                         static_cast<long long>(most));
}

Status CheckHost(const HostConfig& host, const std::string& where) {
  HP_RETURN_IF_ERROR(CheckCount(where, "cores", host.cores(), kMaxThreads));
  HP_RETURN_IF_ERROR(CheckCount(where, "nodes", host.nodes(), host.device_size() > 0 ? 1 : kMostHostNodes));
  HP_RETURN_IF_ERROR(CheckCount(where, "memory_mb", host.memory_mb(), kMaxMemoryMb));
  HP_RETURN_IF_ERROR(CheckCount(where, "device_memory_mb", host.device_memory_mb(), kMaxMemoryMb));
  if (host.has_gflops()) HP_RETURN_IF_ERROR(CheckSpeed(where, "gflops", host.gflops()));
  if (host.has_memory_gb_per_s()) HP_RETURN_IF_ERROR(CheckSpeed(where, "memory_gb_per_s", host.memory_gb_per_s()));
  HP_RETURN_IF_ERROR(CheckSpeed(where, "link_gbit_per_s", host.link_gbit_per_s()));
  if (std::isfinite(host.latency_us()) && host.latency_us() >= 0 && host.latency_us() <= 1e9) return OkStatus();
  return InvalidArgument("%s: latency_us is %g; expected 0 to 10^9", where.c_str(), host.latency_us());
}

HostPlace PlaceOn(int index, const HostConfig& host, const std::string& device, const std::string& path) {
  const bool cpu = device == "cpu";
  HostPlace place;
  place.host = index;
  place.device = device;
  const int parts = cpu ? host.nodes() : 1;  // each node has its part of what the processors have
  place.memory_bytes = ((cpu ? host.memory_mb() : host.device_memory_mb()) << 20) / parts;
  const double gflops = cpu ? kCoreGflops * host.cores() : kDeviceGflops;
  place.speed.flops = 1e9 * (host.has_gflops() ? host.gflops() : gflops) / parts;
  place.speed.bytes_per_second =
      1e9 * (host.has_memory_gb_per_s() ? host.memory_gb_per_s() : (cpu ? kHostGbPerS : kDeviceGbPerS)) / parts;
  place.speed.calls_per_second = cpu ? kHostCallsPerSecond : kDeviceCallsPerSecond;
  if (!host.profile().empty()) place.profile_path = PathBeside(path, host.profile());
  return place;
}

}  // namespace

StatusOr<Hosts> HostsOf(const HostsConfig& written, const std::string& path) {
  HostsConfig config = written;
  for (HostConfig& host : *config.mutable_host()) host.set_name(BareHost(host.name()));
  if (config.host_size() == 0) return InvalidArgument("%s has no host { name: ... }", path.c_str());
  Hosts hosts;
  std::set<std::string> names;
  for (int i = 0; i < config.host_size(); ++i) {
    const HostConfig& host = config.host(i);
    if (host.name().empty()) return InvalidArgument("%s: host %d has no name", path.c_str(), i);
    const std::string where = path + ": host \"" + host.name() + "\"";
    if (!names.insert(host.name()).second) return InvalidArgument("%s appears twice", where.c_str());
    HP_RETURN_IF_ERROR(CheckHost(host, where));
    hosts.hosts.push_back({host.name(), host.link_gbit_per_s() * 1e9 / 8, host.latency_us() * 1e-6,
                           host.memory_mb() << 20, host.cores(), host.nodes(), host.has_memory_mb(), host.has_cores(),
                           host.has_link_gbit_per_s()});
    std::vector<std::string> entries;
    for (const std::string& device : host.device()) entries.push_back(host.name() + "/" + device);
    if (entries.empty()) entries.push_back(host.name());
    const StatusOr<std::vector<NodePlace>> places = PlacesOf(entries);
    if (!places.ok()) return places.status().Prepend(path);
    std::set<std::string> devices;
    for (const NodePlace& place : *places) {
      if (!devices.insert(place.device).second) {
        return InvalidArgument("%s has device \"%s\" twice", where.c_str(), place.device.c_str());
      }
      hosts.places.insert(hosts.places.end(), host.nodes(), PlaceOn(i, host, place.device, path));
    }
  }
  return hosts;
}

StatusOr<Hosts> ReadHosts(const std::string& path) {
  HostsConfig config;
  HP_RETURN_IF_ERROR(ReadTextProto(path, &config));
  return HostsOf(config, path);
}

StatusOr<Hosts> LikeHosts(const std::vector<std::string>& entries, const HostConfig& like) {
  HP_ASSIGN_OR_RETURN(const std::vector<NodePlace> places, PlacesOf(entries));
  HostsConfig config;
  std::map<std::string, HostConfig*> hosts;
  std::set<std::string> taken;
  for (const NodePlace& place : places) {
    HostConfig*& host = hosts[place.host];
    if (host == nullptr) {
      host = config.add_host();
      *host = like;
      host->set_name(place.host);
      host->clear_device();
    }
    if (taken.insert(place.host + "/" + place.device).second) host->add_device(place.device);
  }
  return HostsOf(config, "--hosts");
}

Status ExcludeHosts(const std::vector<std::string>& names, Hosts* hosts) {
  Hosts left;
  std::map<int, int> kept;  // index now, by the index before
  std::set<std::string> excluded;
  for (const std::string& name : names) excluded.insert(BareHost(name));
  std::set<std::string> unknown = excluded;
  for (size_t i = 0; i < hosts->hosts.size(); ++i) {
    const HostInfo& host = hosts->hosts[i];
    unknown.erase(host.name);
    if (excluded.count(host.name) > 0) continue;
    kept[static_cast<int>(i)] = static_cast<int>(left.hosts.size());
    left.hosts.push_back(host);
  }
  if (!unknown.empty()) return InvalidArgument("--exclude=%s: --hosts has no such host", unknown.begin()->c_str());
  if (left.hosts.empty()) return InvalidArgument("--exclude leaves no host");
  for (const HostPlace& place : hosts->places) {
    const auto now = kept.find(place.host);
    if (now == kept.end()) continue;
    left.places.push_back(place);
    left.places.back().host = now->second;
  }
  *hosts = std::move(left);
  return OkStatus();
}

Status LoadProfiles(const std::string& path, const caffe::NetParameter& net, const SampleShape& sample, Hosts* hosts) {
  std::map<std::string, std::shared_ptr<const Profile>> read;
  const auto load = [&](const std::string& file) -> StatusOr<std::shared_ptr<const Profile>> {
    std::shared_ptr<const Profile>& profile = read[file];
    if (profile != nullptr) return profile;
    HP_ASSIGN_OR_RETURN(Profile loaded, Profile::Read(file));
    HP_RETURN_IF_ERROR(loaded.CheckNet(net, sample));
    profile = std::make_shared<const Profile>(std::move(loaded));
    return profile;
  };
  // The place that a profile without a place of its own was measured at.
  const HostPlace* measured = &hosts->places[0];
  if (!path.empty()) {
    HP_ASSIGN_OR_RETURN(const std::shared_ptr<const Profile> common, load(path));
    for (const HostPlace& place : hosts->places) {
      if (hosts->hosts[place.host].name == common->host()) measured = &place;
    }
  }
  const double flops = measured->speed.flops;
  for (HostPlace& place : hosts->places) {
    const bool own = !place.profile_path.empty();
    if (!own && path.empty()) continue;
    HP_ASSIGN_OR_RETURN(place.profile, load(own ? place.profile_path : path));
    const bool on_host = place.device == "cpu";
    const double cores = static_cast<double>(hosts->hosts[place.host].cores) / hosts->hosts[place.host].nodes;
    place.scale = !own ? flops / place.speed.flops : on_host ? place.profile->threads() / cores : 1;
    if (place.profile->bytes_per_second() > 0) {
      place.speed.bytes_per_second = place.profile->bytes_per_second() / place.scale;
    }
  }
  return OkStatus();
}

}  // namespace hp
