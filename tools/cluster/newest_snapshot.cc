#include "tools/cluster/newest_snapshot.h"

#include "base/input_file.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_folder.h"
#include "checkpoint/summed_file.h"

#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <set>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr char kSnapshotWord[] = "newest snapshot ";

std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// Iterations of which there is a manifest, the highest first.
std::set<int64_t, std::greater<>> ManifestsOf(const std::string& prefix) {
  const std::string stem = fs::path(prefix).filename().string() + "_iter_", end = ".hpnode";
  std::set<int64_t, std::greater<>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(prefix).parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(end)) continue;
    const auto number = NumberOf(std::string_view(name).substr(stem.size(), name.size() - stem.size() - end.size()));
    if (number) found.insert(*number);
  }
  return found;
}

bool IsRecent(const std::string& path, int64_t most_age_s) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written <= std::chrono::seconds(most_age_s);
}

bool IsComplete(const std::string& prefix, int64_t iteration) {
  const google::protobuf::LogSilencer quiet;  // its opinion of a damaged manifest
  const StatusOr<std::string> text = ReadInputFile(SnapshotManifestPath(prefix, iteration));
  SnapshotManifest manifest;
  if (!text.ok() || !google::protobuf::TextFormat::ParseFromString(*text, &manifest)) return false;
  const fs::path folder = fs::path(prefix).parent_path();
  for (const SnapshotFile* file : FilesOf(manifest)) {
    const StatusOr<FileSum> sum = SumFile((folder / file->name()).string());
    if (!sum.ok() || sum->bytes != file->bytes() || sum->xxh64 != file->xxh64()) return false;
  }
  return manifest.iteration() == iteration;
}

}  // namespace

std::optional<SnapshotPlace> NewestSnapshot(const std::string& prefix, int64_t most_age_s) {
  for (const int64_t iteration : ManifestsOf(prefix)) {
    if (!IsRecent(SnapshotManifestPath(prefix, iteration), most_age_s)) continue;
    if (IsComplete(prefix, iteration)) return SnapshotPlace{SnapshotStatePath(prefix, iteration), iteration};
  }
  return std::nullopt;
}

std::string SnapshotLine(const SnapshotPlace& place) {
  return kSnapshotWord + std::to_string(place.iteration) + " " + place.state_path;
}

std::optional<SnapshotPlace> ParseSnapshotLine(const std::string& line) {
  if (!line.starts_with(kSnapshotWord)) return std::nullopt;
  const std::string rest = line.substr(sizeof(kSnapshotWord) - 1);
  const size_t space = rest.find(' ');
  const std::optional<int64_t> iteration = NumberOf(std::string_view(rest).substr(0, space));
  if (!iteration || space == std::string::npos) return std::nullopt;
  return SnapshotPlace{rest.substr(space + 1), *iteration};
}

}  // namespace hp
