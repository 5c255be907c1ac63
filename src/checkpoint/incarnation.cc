#include "checkpoint/incarnation.h"

#include "base/format.h"
#include "base/host.h"
#include "base/pending_file.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_folder.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <sys/file.h>
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
#include <thread>
#include <utility>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr char kStart[] = "_start_";
constexpr char kName[] = "of ";    // begins the line with the run's name
constexpr size_t kMostName = 300;  // bytes of it
constexpr int kAttempts = 1000;    // each lost to somebody who claimed the same number
constexpr std::chrono::milliseconds kLookAgain{50};

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

// The second line is for ParseRun.
std::string DescribeStart(const RunMark& run) {
  std::random_device random;
  return Format("host %s, process %d, at %lld s, %08x%08x\nrun %016llx began %lld", HostName().c_str(),
                static_cast<int>(getpid()), static_cast<long long>(std::time(nullptr)), random(), random(),
                static_cast<unsigned long long>(run.id()), static_cast<long long>(run.began_us())) +
         (run.has_resumed_from() ? Format(" from %lld of %lld", static_cast<long long>(run.resumed_from()),
                                          static_cast<long long>(run.resumed_began_us()))
                                 : "") +
         "\n" + (run.has_name() ? kName + Printable(run.name(), kMostName) + "\n" : "");
}

std::string ContentsOf(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "host n3, process 4711"
std::string WhoOf(const std::string& content) { return content.substr(0, content.find(", at ")); }

std::optional<RunMark> ParseRun(const std::string& content) {
  unsigned long long id = 0;
  long long began_us = 0;
  const size_t line = content.find('\n');
  if (line == std::string::npos) return std::nullopt;
  long long from = 0, of = 0;
  const int read =
      std::sscanf(content.c_str() + line, "\nrun %16llx began %lld from %lld of %lld", &id, &began_us, &from, &of);
  if (read < 2 || id == 0) return std::nullopt;
  RunMark run;
  run.set_id(id);
  run.set_began_us(began_us);
  if (read == 4) {
    run.set_resumed_from(from);
    run.set_resumed_began_us(of);
  }
  const size_t behind = content.find('\n', line + 1);
  if (content.compare(behind + 1, sizeof(kName) - 1, kName) == 0) {
    const size_t begin = behind + sizeof(kName);
    run.set_name(content.substr(begin, content.find('\n', begin) - begin));
  }
  return run;
}

bool HaveNames(const RunMark& a, const RunMark& b) { return a.has_name() && b.has_name(); }

bool HaveOneName(const RunMark& a, const RunMark& b) {
  return HaveNames(a, b) && Printable(a.name(), kMostName) == Printable(b.name(), kMostName);
}

// Whether `run` takes over from `other`, which may live. One that goes on from another's snapshot has the other's id.
// One that begins anew has another id than its own earlier start.
bool Succeeds(const RunMark& run, bool restarted, const RunMark& other) {
  if (HaveNames(run, other) && !HaveOneName(run, other)) return false;
  return run.id() == other.id() || (restarted && HaveOneName(run, other));
}

// A descriptor that holds the lock until it is closed; -1: the file system has no locks.
int LockFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  PLOG(WARNING) << path << ": cannot be locked, so another run with this snapshot_prefix will not be refused";
  if (fd >= 0) close(fd);
  return -1;
}

bool IsLocked(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool free = flock(fd, LOCK_SH | LOCK_NB) == 0, taken = !free && errno == EWOULDBLOCK;
  if (!free && !taken) PLOG(WARNING) << path.string() << ": cannot be locked, so whether its process lives is unknown";
  close(fd);
  return taken;
}

// Its start, if another run than `run` lives and writes here.
std::optional<std::pair<int64_t, std::string>> OtherLivingRun(const Found& found, const RunMark& run, bool restarted) {
  if (found.starts.empty()) return std::nullopt;
  const auto& [number, path] = *found.starts.rbegin();
  const std::string content = ContentsOf(path);
  const std::optional<RunMark> other = ParseRun(content);
  if (!other || Succeeds(run, restarted, *other) || !IsLocked(path)) return std::nullopt;
  return std::pair{number, other->has_name() ? other->name() + ", " + WhoOf(content) : WhoOf(content)};
}

// What is there when no other run lives. A number behind these goes to nobody who has not looked.
StatusOr<Found> WaitForOtherRun(const std::string& prefix, const RunMark& run, bool restarted,
                                std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (bool said = false;; said = true) {
    Found found = LookAround(prefix);
    const auto other = OtherLivingRun(found, run, restarted);
    if (!other) return found;
    if (std::chrono::steady_clock::now() >= deadline) {
      return FailedPrecondition(
          "another live run writes the snapshots %s (start %lld, %s): end it, or give this run a snapshot_prefix of "
          "its own",
          prefix.c_str(), static_cast<long long>(other->first), other->second.c_str());
    }
    if (!said)
      LOG(INFO) << "waiting for the end of another run that writes the snapshots " << prefix << " (" << other->second
                << ")";
    std::this_thread::sleep_for(kLookAgain);
  }
}

// What starts before `number` have left.
void RemoveLeftovers(const std::string& prefix, const Found& found, int64_t number) {
  std::error_code ignored;
  for (const auto& [start, path] : found.starts) fs::remove(path, ignored);
  for (const auto& [start, path] : found.temporaries) {
    if (start < number) fs::remove(path, ignored);
  }
  for (const PartFile& part : found.parts) {
    if (part.start < number && IsLeftOver(prefix, part)) fs::remove(part.path, ignored);
  }
}

/// A file that is locked before anybody sees it under its number: the two are one file.
class ClaimFile {
 public:
  static StatusOr<std::unique_ptr<ClaimFile>> Make(const std::string& prefix, const std::string& content) {
    std::string path = prefix + kStart + Format("claim_%d_%08x", static_cast<int>(getpid()), std::random_device()());
    HP_RETURN_IF_ERROR(WriteWholeFile(path, content));
    const int lock = LockFile(path);
    return std::unique_ptr<ClaimFile>(new ClaimFile(std::move(path), lock));
  }
  ~ClaimFile() {
    unlink(path_.c_str());
    if (lock_ >= 0) close(lock_);
  }
  ClaimFile(const ClaimFile&) = delete;

  const std::string& path() const { return path_; }
  int TakeLock() { return std::exchange(lock_, -1); }

 private:
  ClaimFile(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  int lock_;
};

}  // namespace

StatusOr<std::unique_ptr<Incarnation>> Incarnation::Claim(const std::string& prefix, const RunMark& run, bool restarted,
                                                          std::chrono::milliseconds patience) {
  const std::string content = DescribeStart(run);
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<ClaimFile> own, ClaimFile::Make(prefix, content));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HP_ASSIGN_OR_RETURN(const Found found, WaitForOtherRun(prefix, run, restarted, patience));
    const int64_t number = found.starts.empty() ? 1 : found.starts.rbegin()->first + 1;
    if (link(own->path().c_str(), StartPath(prefix, number).c_str()) != 0) {
      if (errno == EEXIST) continue;
      return InvalidArgument("%s: cannot be made: %s", StartPath(prefix, number).c_str(), std::strerror(errno));
    }
    // What we saw may be old: somebody has claimed more, and removed what was there.
    const Found now = LookAround(prefix);
    if (now.starts.empty() || now.starts.rbegin()->first != number) {
      unlink(StartPath(prefix, number).c_str());
      continue;
    }
    RemoveLeftovers(prefix, found, number);
    return std::unique_ptr<Incarnation>(new Incarnation(prefix, number, content, own->TakeLock()));
  }
  return InvalidArgument("%s%s*: others claim every number", prefix.c_str(), kStart);
}

Incarnation::~Incarnation() {
  if (lock_ >= 0) close(lock_);
}

// Ours is looked at first: a later start has its file before it removes ours, so what is missing now has a reason then.
Status Incarnation::Check() const {
  const std::string path = StartPath(prefix_, number_);
  std::error_code error;
  const bool gone = !fs::exists(path, error) && !error, ours = ContentsOf(path) == content_;
  const Found found = LookAround(prefix_);
  if (!found.starts.empty() && found.starts.rbegin()->first > number_) {
    const std::string who = WhoOf(ContentsOf(found.starts.rbegin()->second));
    return FailedPrecondition(
        "this is start %lld of the job; start %lld has begun since (%s) and writes the snapshots %s",
        static_cast<long long>(number_), static_cast<long long>(found.starts.rbegin()->first), who.c_str(),
        prefix_.c_str());
  }
  if (gone) return FailedPrecondition("%s is gone: somebody else writes the snapshots of this job", path.c_str());
  if (ours) return OkStatus();
  return InvalidArgument("%s cannot be read, or another process has written it", path.c_str());
}

Status CheckGoesOn(const std::string& prefix, const RunMark& run, bool restarted) {
  const Found found = LookAround(prefix);
  if (found.starts.empty()) return OkStatus();
  const fs::path& path = found.starts.rbegin()->second;
  const std::string content = ContentsOf(path);
  const std::optional<RunMark> other = ParseRun(content);
  if (!other || !HaveNames(*other, run) || HaveOneName(*other, run)) return OkStatus();
  const bool alive = IsLocked(path);
  if (!alive && !restarted) {
    LOG(INFO) << "the snapshots " << prefix << " are of " << other->name() << ", whose training goes on as "
              << Printable(run.name(), kMostName);
    return OkStatus();
  }
  return FailedPrecondition(
      "the snapshots %s are of %s (%s), which %s, and this is %s: give each run a snapshot_prefix of its own%s",
      prefix.c_str(), other->name().c_str(), WhoOf(content).c_str(), alive ? "is alive" : "began later",
      Printable(run.name(), kMostName).c_str(),
      alive ? "" : ", or name the snapshot to go on from (--resume=PREFIX_iter_N.solverstate)");
}

int64_t LatestStart(const std::string& prefix) {
  const Found found = LookAround(prefix);
  return found.starts.empty() ? 0 : found.starts.rbegin()->first;
}

std::optional<RunMark> RunOfLatestStart(const std::string& prefix) {
  const Found found = LookAround(prefix);
  if (found.starts.empty()) return std::nullopt;
  return ParseRun(ContentsOf(found.starts.rbegin()->second));
}

}  // namespace hp
