#include "scheduler/plan/table_places.h"

#include "base/host.h"

#include <charconv>
#include <optional>
#include <set>
#include <string_view>

namespace hp {
namespace {

constexpr std::string_view kGpu = "cuda:";
constexpr int kMaxGpus = 1024;

std::optional<int> ParseIndex(std::string_view text) {
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text.front() == '-' || index >= kMaxGpus) return std::nullopt;
  return index;
}

/// The devices that "cuda:0-3" names; empty: it is no such text.
std::vector<std::string> DevicesOf(std::string_view text) {
  if (text == "cpu" || text == kOwnGpu) return {std::string(text)};
  if (text.substr(0, kGpu.size()) != kGpu) return {};
  text.remove_prefix(kGpu.size());
  const size_t dash = text.find('-');
  if (text.empty() || dash == 0) return {};
  const std::optional<int> first = ParseIndex(text.substr(0, dash));
  const std::optional<int> last = dash == text.npos        ? first
                                  : dash + 1 < text.size() ? ParseIndex(text.substr(dash + 1))
                                                           : std::nullopt;
  std::vector<std::string> devices;
  if (!first || !last) return devices;
  for (int index = *first; index <= *last; ++index) devices.push_back(std::string(kGpu) + std::to_string(index));
  return devices;
}

}  // namespace

bool IsDeviceName(const std::string& name) {
  const std::vector<std::string> devices = DevicesOf(name);
  return devices.size() == 1 && devices[0] == name;
}

StatusOr<std::vector<NodePlace>> PlacesOf(const std::vector<std::string>& hosts) {
  std::vector<NodePlace> places;
  for (const std::string& entry : hosts) {
    const size_t slash = entry.find('/');
    const std::string host = BareHost(entry.substr(0, slash));
    const std::vector<std::string> devices =
        slash == entry.npos ? std::vector<std::string>{"cpu"} : DevicesOf(std::string_view(entry).substr(slash + 1));
    if (host.empty() || host.find_first_of(" \t\n") != host.npos || devices.empty()) {
      return InvalidArgument("--hosts has \"%s\"; expected HOST, HOST/cuda, HOST/cuda:N or HOST/cuda:N-M",
                             entry.c_str());
    }
    for (const std::string& device : devices) places.push_back({host, device});
  }
  if (places.empty()) return InvalidArgument("--hosts is empty; expected --hosts=HOST,...");
  return places;
}

StatusOr<std::vector<std::string>> ExcludeHosts(const std::vector<std::string>& names,
                                                const std::vector<std::string>& entries) {
  std::vector<std::string> left;
  std::set<std::string> excluded;
  for (const std::string& name : names) excluded.insert(BareHost(name));
  std::set<std::string> unknown = excluded;
  for (const std::string& entry : entries) {
    const std::string host = BareHost(entry.substr(0, entry.find('/')));
    unknown.erase(host);
    if (excluded.count(host) == 0) left.push_back(entry);
  }
  if (!unknown.empty()) return InvalidArgument("--exclude=%s: --hosts has no such host", unknown.begin()->c_str());
  if (left.empty() && !entries.empty()) return InvalidArgument("--exclude leaves no host");
  return left;
}

}  // namespace hp
