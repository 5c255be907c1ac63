// What is known of snapshots without loading them: manifests name the other files and their sums. A manifest's name has
// the iteration, but what counts is inside it.
#include "checkpoint/snapshot_folder.h"

#include "base/input_file.h"
#include "base/pending_file.h"
#include "checkpoint/hdf5_file.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/summed_file.h"
#include "proto/run_mark.h"

#include "glog/logging.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <tuple>

namespace hp {
namespace {

namespace fs = std::filesystem;

std::string Beside(const std::string& path, const std::string& name) {
  return path.substr(0, path.rfind('/') + 1) + name;
}

auto AgeOf(const SnapshotManifest& manifest) {
  return std::tuple(manifest.run().began_us(), manifest.run().id(), manifest.iteration());
}

Status RemoveFile(const std::string& path, const Incarnation* incarnation) {
  if (incarnation != nullptr) HP_RETURN_IF_ERROR(incarnation->Check());
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  return InvalidArgument("%s: cannot be removed: %s", path.c_str(), std::strerror(errno));
}

Status RemoveSnapshot(const FoundSnapshot& snapshot, const Incarnation* incarnation) {
  HP_RETURN_IF_ERROR(RemoveFile(snapshot.manifest_path, incarnation));
  HP_RETURN_IF_ERROR(SyncFolderOf(snapshot.manifest_path));
  HP_RETURN_IF_ERROR(RemoveFile(snapshot.state_path, incarnation));
  if (!snapshot.manifest.part().empty()) {  // what a merge left that was cut off
    const std::string stem = fs::path(snapshot.manifest_path).replace_extension().string();
    for (const char* end : {".caffemodel", ".caffemodel.h5", ".solverstate.h5"}) {
      HP_RETURN_IF_ERROR(RemoveFile(stem + end, incarnation));
    }
  }
  for (const SnapshotFile* file : FilesOf(snapshot.manifest)) {
    HP_RETURN_IF_ERROR(RemoveFile(Beside(snapshot.manifest_path, file->name()), incarnation));
  }
  return OkStatus();
}

}  // namespace

StatusOr<SnapshotManifest> ReadManifestFile(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  SnapshotManifest manifest;
  const google::protobuf::LogSilencer quiet;  // its opinion of a damaged manifest; ours is in the Status
  google::protobuf::TextFormat::Parser parser;
  if (!parser.ParseFromString(text, &manifest)) return DataLoss("%s: not an hpnode manifest", path.c_str());
  return manifest;
}

Status CheckFileSum(const SnapshotFile& file, const std::string& manifest_path) {
  const std::string path = Beside(manifest_path, file.name());
  HP_ASSIGN_OR_RETURN(const FileSum sum, SumFile(path));
  if (sum.bytes == file.bytes() && sum.xxh64 == file.xxh64()) return OkStatus();
  return DataLoss("%s: %" PRId64 " bytes, checksum %016" PRIx64 "; its manifest %s says %" PRId64
                  " bytes, checksum %016" PRIx64 ": the file was changed, or belongs to another snapshot",
                  path.c_str(), sum.bytes, sum.xxh64, manifest_path.c_str(), static_cast<int64_t>(file.bytes()),
                  static_cast<uint64_t>(file.xxh64()));
}

std::vector<const SnapshotFile*> FilesOf(const SnapshotManifest& manifest) {
  std::vector<const SnapshotFile*> files;
  for (const SnapshotPart& part : manifest.part()) files.push_back(&part.file());
  if (files.empty()) files = {&manifest.state(), &manifest.model()};
  return files;
}

bool IsOlder(const SnapshotManifest& a, const SnapshotManifest& b) { return AgeOf(a) < AgeOf(b); }

std::vector<FoundSnapshot> FindSnapshots(const std::string& prefix) {
  std::vector<FoundSnapshot> found;
  const std::string stem = fs::path(prefix).filename().string() + "_iter_";
  const fs::path folder = fs::path(prefix).parent_path();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(".hpnode")) continue;
    const std::string path = Beside(prefix, name);
    StatusOr<SnapshotManifest> manifest = ReadManifestFile(path);
    if (!manifest.ok()) {
      LOG(WARNING) << "a snapshot is passed over: " << manifest.status().message();
      continue;
    }
    if (path != SnapshotManifestPath(prefix, manifest->iteration())) {
      LOG(WARNING) << "a snapshot is passed over: " << path << " says that it is of iteration "
                   << manifest->iteration();
      continue;
    }
    const std::string state = SnapshotStatePath(prefix, manifest->iteration());
    found.push_back({path, IsHdf5Path(manifest->state().name()) ? state + ".h5" : state, *std::move(manifest)});
  }
  std::sort(found.begin(), found.end(),
            [](const FoundSnapshot& a, const FoundSnapshot& b) { return IsOlder(b.manifest, a.manifest); });
  return found;
}

Status CheckComplete(const FoundSnapshot& snapshot) {
  const bool parts = !snapshot.manifest.part().empty();
  if (!parts && Beside(snapshot.manifest_path, snapshot.manifest.state().name()) != snapshot.state_path) {
    return DataLoss("%s: its state is \"%s\", not %s", snapshot.manifest_path.c_str(),
                    snapshot.manifest.state().name().c_str(), snapshot.state_path.c_str());
  }
  for (const SnapshotFile* file : FilesOf(snapshot.manifest)) {
    HP_RETURN_IF_ERROR(CheckFileSum(*file, snapshot.manifest_path));
  }
  return OkStatus();
}

std::optional<FoundSnapshot> FindNewestComplete(const std::string& prefix, uint64_t net_hash, const RunMark& run) {
  for (FoundSnapshot& snapshot : FindSnapshots(prefix)) {
    if (snapshot.manifest.net_hash() != net_hash) {
      LOG(INFO) << "the snapshot " << snapshot.state_path << " is passed over: it belongs to another net";
      continue;
    }
    if (IsAbandoned(snapshot.manifest, run)) {
      LOG(INFO) << "the snapshot " << snapshot.state_path << " is passed over: the run went back to iteration "
                << run.resumed_from();
      continue;
    }
    const Status complete = CheckComplete(snapshot);
    if (complete.ok()) return std::move(snapshot);
    LOG(WARNING) << "the snapshot " << snapshot.state_path << " is passed over: " << complete.message();
  }
  return std::nullopt;
}

int PruneSnapshots(const std::string& prefix, const RunMark& run, int keep, const std::set<int64_t>& in_use,
                   const Incarnation* incarnation) {
  int seen = 0, removed = 0;
  for (const FoundSnapshot& snapshot : FindSnapshots(prefix)) {
    if (snapshot.manifest.run().id() != run.id() || ++seen <= keep) continue;
    if (in_use.contains(snapshot.manifest.iteration())) continue;
    if (const Status status = RemoveSnapshot(snapshot, incarnation); !status.ok()) {
      LOG(WARNING) << "an old snapshot stays: " << status.message();
      continue;
    }
    ++removed;
  }
  return removed;
}

}  // namespace hp
