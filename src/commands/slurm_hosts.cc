#include "commands/slurm_hosts.h"

#include "base/format.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace hp {
namespace {

constexpr size_t kMostHosts = 100'000;
constexpr size_t kMostDigits = 9;

std::optional<int> Number(std::string_view text) {
  int number = 0;
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// The parts of `text` between commas that are in no bracket.
std::vector<std::string_view> SplitOutside(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[') {
      ++depth;
    } else if (text[i] == ']') {
      --depth;
    }
  }
  return parts;
}

/// "7" or "07-12": the numbers, as wide as the first is written. False: it is no such range, or too long a one.
bool AppendRange(std::string_view range, std::vector<std::string>* numbers) {
  const std::string_view first = range.substr(0, range.find('-'));
  const std::string_view last = first.size() == range.size() ? first : range.substr(first.size() + 1);
  const std::optional<int> begin = Number(first), end = Number(last);
  if (!begin || !end || *end < *begin || static_cast<size_t>(*end - *begin) >= kMostHosts) return false;
  for (int i = *begin; i <= *end; ++i) {
    std::string number = std::to_string(i);
    if (number.size() < first.size()) number.insert(0, first.size() - number.size(), '0');
    numbers->push_back(std::move(number));
  }
  return true;
}

/// Appends what a name with brackets stands for. False: it is malformed, or too much.
bool AppendHosts(std::string_view name, std::vector<std::string>* hosts) {
  std::vector<std::string> begun = {""};
  while (!name.empty()) {
    const size_t open = name.find_first_of("[]");
    for (std::string& host : begun) host += name.substr(0, open);
    if (open == name.npos) break;
    const size_t close = name.find_first_of("[]", open + 1);
    if (name[open] != '[' || close == name.npos || name[close] != ']') return false;
    std::vector<std::string> numbers, longer;
    for (const std::string_view range : SplitOutside(name.substr(open + 1, close - open - 1))) {
      if (!AppendRange(range, &numbers)) return false;
    }
    if (numbers.size() * begun.size() > kMostHosts) return false;
    for (const std::string& host : begun) {
      for (const std::string& number : numbers) longer.push_back(host + number);
    }
    begun = std::move(longer);
    name.remove_prefix(close + 1);
  }
  if (hosts->size() + begun.size() > kMostHosts) return false;
  hosts->insert(hosts->end(), begun.begin(), begun.end());
  return std::find(begun.begin(), begun.end(), "") == begun.end();
}

/// "2" or "2(x3)". False: it is neither.
bool AppendCounts(std::string_view text, std::vector<int>* counts) {
  const size_t open = text.find("(x");
  const std::optional<int> count = Number(text.substr(0, open));
  if (!count) return false;
  if (open == text.npos) {
    counts->push_back(*count);
    return true;
  }
  if (text.back() != ')') return false;
  const std::optional<int> times = Number(text.substr(open + 2, text.size() - open - 3));
  if (!times || counts->size() + *times > kMostHosts) return false;
  counts->insert(counts->end(), *times, *count);
  return true;
}

}  // namespace

StatusOr<std::vector<std::string>> ExpandHostList(const std::string& list) {
  std::vector<std::string> hosts;
  for (const std::string_view name : SplitOutside(list)) {
    if (AppendHosts(name, &hosts)) continue;
    return InvalidArgument("\"%s\" is no list of hosts; expected one like a[1-3,07],b, of at most %zu hosts",
                           Printable(list).c_str(), kMostHosts);
  }
  return hosts;
}

StatusOr<std::vector<int>> ExpandCounts(const std::string& text) {
  std::vector<int> counts;
  for (const std::string_view part : SplitOutside(text)) {
    if (AppendCounts(part, &counts)) continue;
    return InvalidArgument("\"%s\" is no list of counts; expected one like 2(x3),1", Printable(text).c_str());
  }
  return counts;
}

}  // namespace hp
