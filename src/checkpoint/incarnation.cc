#include "checkpoint/incarnation.h"

#include "base/format.h"
#include "base/host.h"
#include "base/pending_file.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_folder.h"

#include "glog/logging.h"
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr char kStart[] = "_start_";
constexpr int kAttempts = 1000;  // each lost to somebody who claimed the same number

std::string StartPath(const std::string& prefix, int64_t number) { return prefix + kStart + std::to_string(number); }

fs::path StartFolder(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).parent_path();
  return folder.empty() ? "." : folder;
}

std::optional<int64_t> StartNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

/// What stands between `front` and `back` in a name.
std::optional<std::string_view> Between(std::string_view name, std::string_view front, std::string_view back) {
  if (name.size() < front.size() + back.size() || !name.starts_with(front) || !name.ends_with(back))
    return std::nullopt;
  return name.substr(front.size(), name.size() - front.size() - back.size());
}

/// PREFIX_iter_N.START.OWNER.slices.
struct PartFile {
  int64_t iteration = 0, start = 0;
  fs::path path;
};

// `middle` is what stands for N.START.OWNER.
std::optional<PartFile> ParsePartName(std::string_view middle, const fs::path& path) {
  const size_t first = middle.find('.'), second = middle.rfind('.');
  if (first == std::string_view::npos || second <= first) return std::nullopt;
  const auto iteration = StartNumber(middle.substr(0, first));
  const auto start = StartNumber(middle.substr(first + 1, second - first - 1));
  if (!iteration || !start) return std::nullopt;
  return PartFile{*iteration, *start, path};
}

// A manifest that cannot be read may name it.
bool IsLeftOver(const std::string& prefix, const PartFile& part) {
  const StatusOr<SnapshotManifest> manifest = ReadManifestFile(SnapshotManifestPath(prefix, part.iteration));
  if (!manifest.ok()) return manifest.status().code() == StatusCode::kNotFound;
  const std::string name = part.path.filename().string();
  return std::none_of(manifest->part().begin(), manifest->part().end(),
                      [&name](const SnapshotPart& named) { return named.file().name() == name; });
}

struct Found {
  std::map<int64_t, fs::path> starts;
  std::vector<std::pair<int64_t, fs::path>> temporaries;  // by the number of their start
  std::vector<PartFile> parts;
};

Found LookAround(const std::string& prefix) {
  Found found;
  const std::string stem = fs::path(prefix).filename().string();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(StartFolder(prefix), error)) {
    const std::string name = entry.path().filename().string();
    if (const auto middle = Between(name, stem + kStart, "")) {
      if (const auto number = StartNumber(*middle)) found.starts[*number] = entry.path();
    } else if (const auto middle = Between(name, stem + "_iter_", ".slices")) {
      if (auto part = ParsePartName(*middle, entry.path())) found.parts.push_back(*std::move(part));
    } else if (const auto rest = Between(name, stem + "_iter_", ".tmp")) {
      const size_t dot = rest->rfind('.');
      const auto number = dot == std::string_view::npos ? std::nullopt : StartNumber(rest->substr(dot + 1));
      if (number) found.temporaries.emplace_back(*number, entry.path());
    }
  }
  return found;
}

// The second line is for RunOfLatestStart.
std::string DescribeStart(const RunMark& run) {
  std::random_device random;
  return Format("host %s, process %d, at %lld s, %08x%08x\nrun %016llx began %lld\n", HostName().c_str(),
                static_cast<int>(getpid()), static_cast<long long>(std::time(nullptr)), random(), random(),
                static_cast<unsigned long long>(run.id()), static_cast<long long>(run.began_us()));
}

std::string ContentsOf(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

StatusOr<std::unique_ptr<Incarnation>> Incarnation::Claim(const std::string& prefix, const RunMark& run) {
  const std::string content = DescribeStart(run);
  const std::string own = prefix + kStart + Format("claim_%d_%08x", static_cast<int>(getpid()), std::random_device()());
  HP_RETURN_IF_ERROR(WriteWholeFile(own, content));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Found found = LookAround(prefix);
    const int64_t number = found.starts.empty() ? 1 : found.starts.rbegin()->first + 1;
    if (link(own.c_str(), StartPath(prefix, number).c_str()) != 0) {
      if (errno == EEXIST) continue;
      const std::string reason = std::strerror(errno);
      unlink(own.c_str());
      return InvalidArgument("%s: cannot be made: %s", StartPath(prefix, number).c_str(), reason.c_str());
    }
    // What we saw may be old: somebody has claimed more, and removed what was there.
    const Found now = LookAround(prefix);
    if (now.starts.empty() || now.starts.rbegin()->first != number) {
      unlink(StartPath(prefix, number).c_str());
      continue;
    }
    unlink(own.c_str());
    std::error_code ignored;
    for (const auto& [start, path] : found.starts) fs::remove(path, ignored);
    for (const auto& [start, path] : found.temporaries) {
      if (start < number) fs::remove(path, ignored);
    }
    for (const PartFile& part : found.parts) {
      if (part.start < number && IsLeftOver(prefix, part)) fs::remove(part.path, ignored);
    }
    return std::unique_ptr<Incarnation>(new Incarnation(prefix, number, content));
  }
  unlink(own.c_str());
  return InvalidArgument("%s%s*: others claim every number", prefix.c_str(), kStart);
}

Status Incarnation::Check() const {
  const Found found = LookAround(prefix_);
  if (!found.starts.empty() && found.starts.rbegin()->first > number_) {
    std::string who = ContentsOf(found.starts.rbegin()->second);
    who = who.substr(0, who.find(", at "));
    return FailedPrecondition(
        "this is start %lld of the job; start %lld has begun since (%s) and writes the snapshots %s",
        static_cast<long long>(number_), static_cast<long long>(found.starts.rbegin()->first), who.c_str(),
        prefix_.c_str());
  }
  const std::string path = StartPath(prefix_, number_);
  std::error_code error;
  if (!fs::exists(path, error) && !error) {
    return FailedPrecondition("%s is gone: somebody else writes the snapshots of this job", path.c_str());
  }
  if (ContentsOf(path) == content_) return OkStatus();
  return InvalidArgument("%s cannot be read, or another process has written it", path.c_str());
}

std::optional<RunMark> RunOfLatestStart(const std::string& prefix) {
  const Found found = LookAround(prefix);
  if (found.starts.empty()) return std::nullopt;
  const std::string content = ContentsOf(found.starts.rbegin()->second);
  unsigned long long id = 0;
  long long began_us = 0;
  const size_t line = content.find('\n');
  if (line == std::string::npos) return std::nullopt;
  if (std::sscanf(content.c_str() + line, "\nrun %16llx began %lld", &id, &began_us) != 2 || id == 0)
    return std::nullopt;
  RunMark run;
  run.set_id(id);
  run.set_began_us(began_us);
  return run;
}

}  // namespace hp
