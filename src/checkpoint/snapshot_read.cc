// Reading begins with the state, which names the model and says whether there must be a manifest. Checksums are
// compared before the model is parsed, so that a damaged file is reported as such.
#include "checkpoint/hdf5_file.h"
#include "checkpoint/message_file.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_folder.h"
#include "checkpoint/snapshot_parts.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <string>
#include <utility>

namespace hp {
namespace {

struct State {
  caffe::SolverState head;  // without history
  std::vector<Blob> histories;
};

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }
std::string FileName(const std::string& path) { return std::filesystem::path(path).filename().string(); }
bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string ManifestOf(const std::string& state_path) {
  std::filesystem::path path = state_path;
  if (IsHdf5Path(state_path)) path.replace_extension();
  return path.replace_extension(".hpnode").string();
}

// Where the state of a snapshot lies that is not in parts.
StatusOr<std::string> FindState(const std::string& state_path) {
  if (Exists(state_path)) return state_path;
  const std::string hdf5 = IsHdf5Path(state_path) ? "" : state_path + ".h5";
  if (!hdf5.empty() && Exists(hdf5)) return hdf5;
  return NotFound("%s: no such file%s%s, nor a manifest %s that names parts of a snapshot", state_path.c_str(),
                  hdf5.empty() ? "" : ", nor ", hdf5.c_str(), ManifestOf(state_path).c_str());
}

// Of a state, what is not its histories.
Status TakeHead(const std::string& path, const std::string& rest, caffe::SolverState* head) {
  if (!head->MergeFromString(rest) || !head->has_iter() || !head->has_learned_net()) {
    return DataLoss("%s: not a .solverstate: its iteration or the name of its model is missing", path.c_str());
  }
  if (head->iter() >= 0) return OkStatus();
  return DataLoss("%s: iteration %d; expected at least 0", path.c_str(), head->iter());
}

StatusOr<caffe::SolverState> ReadHead(const std::string& path) {
  caffe::SolverState head;
  std::string rest;
  if (IsHdf5File(path)) {
    HP_RETURN_IF_ERROR(ReadHdf5Head(path, &head));
  } else {
    const auto skip = [](int, google::protobuf::io::CodedInputStream* part) -> Status {
      if (part->Skip(part->BytesUntilLimit())) return OkStatus();
      return DataLoss("truncated before byte %d", part->CurrentPosition());
    };
    HP_RETURN_IF_ERROR(ReadMessageFile(path, {caffe::SolverState::kHistoryFieldNumber}, skip, &rest));
  }
  HP_RETURN_IF_ERROR(TakeHead(path, rest, &head));
  return head;
}

StatusOr<State> ReadState(const std::string& path) {
  State state;
  const auto reader = [&state](int, google::protobuf::io::CodedInputStream* part) -> Status {
    caffe::BlobProto proto;
    HP_RETURN_IF_ERROR(ParsePart(part, &proto));
    auto blob = TakeBlob(proto);
    if (!blob.ok()) return blob.status().Prepend("history " + std::to_string(state.histories.size()));
    state.histories.push_back(std::move(*blob));
    return OkStatus();
  };
  std::string rest;
  if (IsHdf5File(path)) {
    HP_ASSIGN_OR_RETURN(state.histories, ReadHdf5State(path, &state.head));
  } else {
    HP_RETURN_IF_ERROR(ReadMessageFile(path, {caffe::SolverState::kHistoryFieldNumber}, reader, &rest));
  }
  HP_RETURN_IF_ERROR(TakeHead(path, rest, &state.head));
  return state;
}

Status CheckSums(const SnapshotManifest& manifest, const std::string& path, const SnapshotManifest* checked) {
  if (checked != nullptr && checked->SerializeAsString() == manifest.SerializeAsString()) return OkStatus();
  for (const SnapshotFile* file : FilesOf(manifest)) HP_RETURN_IF_ERROR(CheckFileSum(*file, path));
  return OkStatus();
}

// The manifest beside a state, checked against both files; nothing for a state that Caffe wrote.
StatusOr<std::optional<SnapshotManifest>> ReadManifest(const std::string& state_path, const caffe::SolverState& head,
                                                       const SnapshotManifest* checked) {
  using Result = std::optional<SnapshotManifest>;
  if (!head.has_manifest()) return Result();
  const std::string path = ManifestOf(state_path);
  StatusOr<SnapshotManifest> read = ReadManifestFile(path);
  if (read.status().code() == StatusCode::kNotFound) {
    return DataLoss("%s: the snapshot is not complete: its manifest %s is missing", state_path.c_str(), path.c_str());
  }
  HP_RETURN_IF_ERROR(read.status());
  SnapshotManifest manifest = *std::move(read);
  if (manifest.state().name() != FileName(state_path) || manifest.iteration() != head.iter()) {
    return DataLoss("%s: the manifest belongs to %s at iteration %" PRId64 ", not to %s at iteration %d", path.c_str(),
                    manifest.state().name().c_str(), static_cast<int64_t>(manifest.iteration()),
                    FileName(state_path).c_str(), head.iter());
  }
  HP_RETURN_IF_ERROR(CheckSums(manifest, path, checked));
  return Result(std::move(manifest));
}

// Snapshots are moved to other folders and hosts, so a model beside the state counts more than the path inside it.
std::string FindModel(const std::string& state_path, const std::string& learned_net) {
  const std::string beside = FolderOf(state_path) + FileName(learned_net);
  return Exists(beside) ? beside : learned_net;
}

Status CheckParams(const CaffeModel& model, const std::vector<SnapshotParam>& params) {
  for (const SnapshotParam& param : params) {
    const Blob* blob = model.Find(param.layer, param.blob);
    if (blob == nullptr) {
      return FailedPrecondition("%s: no blob %d of layer \"%s\": the snapshot belongs to another net",
                                model.path.c_str(), param.blob, param.layer.c_str());
    }
    HP_RETURN_IF_ERROR(CheckShape(*blob, param.layer, param.blob, param.shape).Prepend(model.path));
  }
  return OkStatus();
}

/// @param each histories that each parameter has.
Status TakeHistories(const std::string& path, std::vector<Blob> histories, const std::vector<SnapshotParam>& params,
                     int each, std::map<BlobKey, std::vector<Blob>>* out) {
  if (histories.size() != params.size() * static_cast<size_t>(each)) {
    return FailedPrecondition(
        "%s: %zu histories; expected %zu, %d of each parameter: the snapshot belongs to another net or solver type",
        path.c_str(), histories.size(), params.size() * static_cast<size_t>(each), each);
  }
  for (size_t i = 0; i < histories.size(); ++i) {
    const SnapshotParam& param = params[i % params.size()];
    HP_RETURN_IF_ERROR(CheckShape(histories[i], param.layer, param.blob, param.shape).Prepend(path + ": history of"));
    (*out)[BlobKey(param.layer, param.blob)].push_back(std::move(histories[i]));
  }
  return OkStatus();
}

// Nothing: it is not in parts, whatever else it is.
std::optional<SnapshotManifest> ManifestOfParts(const std::string& state_path) {
  StatusOr<SnapshotManifest> manifest = ReadManifestFile(ManifestOf(state_path));
  if (!manifest.ok() || manifest->part().empty()) return std::nullopt;
  return *std::move(manifest);
}

StatusOr<LoadedSnapshot> OpenParts(const std::string& state_path, const SnapshotManifest& manifest,
                                   const SnapshotManifest* checked) {
  const std::string path = ManifestOf(state_path);
  if (manifest.iteration() < 0 || manifest.iteration() > INT32_MAX) return DataLoss("%s: no iteration", path.c_str());
  HP_RETURN_IF_ERROR(CheckSums(manifest, path, checked));
  LoadedSnapshot snapshot;
  HP_ASSIGN_OR_RETURN(snapshot.parts, PartsReader::Open(manifest, path));
  snapshot.model.path = path;
  snapshot.iteration = manifest.iteration();
  snapshot.current_step = manifest.current_step();
  snapshot.manifest = manifest;
  return snapshot;
}

Status CheckParts(const PartsReader& parts, const std::string& path, const std::vector<SnapshotParam>& params) {
  for (const SnapshotParam& param : params) {
    const std::optional<int> found = parts.Find(param.layer, param.blob);
    if (!found) {
      return FailedPrecondition("%s: no blob %d of layer \"%s\": the snapshot belongs to another net", path.c_str(),
                                param.blob, param.layer.c_str());
    }
    const Blob blob{parts.shape(*found), false, {}};
    HP_RETURN_IF_ERROR(CheckShape(blob, param.layer, param.blob, param.shape).Prepend(path));
  }
  // All snapshots of a run have the same blobs: parts of an earlier one may be merged for the net as it is now.
  if (parts.blobs() != std::ssize(params)) {
    return FailedPrecondition("%s: has %d blobs of parameters; the net has %zu: the snapshot belongs to another net",
                              path.c_str(), parts.blobs(), params.size());
  }
  return OkStatus();
}

// A manifest says it, so that the large files need not be read.
std::vector<std::string> FilesNamedBy(const SnapshotManifest& manifest, const std::string& path) {
  std::vector<std::string> files;
  for (const SnapshotFile* file : FilesOf(manifest)) files.push_back(FolderOf(path) + file->name());
  files.push_back(path);
  return files;
}

// Of a state that no manifest names: it is Caffe's own, or its snapshot is not complete.
StatusOr<std::vector<std::string>> FilesNamedBy(const std::string& state_path) {
  HP_ASSIGN_OR_RETURN(const caffe::SolverState head, ReadHead(state_path));
  HP_RETURN_IF_ERROR(ReadManifest(state_path, head, nullptr).status());
  return std::vector<std::string>{state_path, FindModel(state_path, head.learned_net())};
}

}  // namespace

// A start of the job that is just ending may merge the parts meanwhile: then Caffe's files are there.
StatusOr<LoadedSnapshot> ReadSnapshot(const std::string& state_path, const SnapshotManifest* checked) {
  if (const auto manifest = ManifestOfParts(state_path)) {
    StatusOr<LoadedSnapshot> snapshot = OpenParts(state_path, *manifest, checked);
    if (snapshot.ok() || ManifestOfParts(state_path)) return snapshot;
  }
  LoadedSnapshot snapshot;
  HP_ASSIGN_OR_RETURN(snapshot.state_path, FindState(state_path));
  HP_ASSIGN_OR_RETURN(State state, ReadState(snapshot.state_path));
  snapshot.iteration = state.head.iter();
  snapshot.current_step = state.head.current_step();
  HP_ASSIGN_OR_RETURN(snapshot.manifest, ReadManifest(snapshot.state_path, state.head, checked));
  const std::string model_path = FindModel(snapshot.state_path, state.head.learned_net());
  if (!Exists(model_path)) {
    return NotFound("%s: no such file, and %s needs it", model_path.c_str(), snapshot.state_path.c_str());
  }
  HP_ASSIGN_OR_RETURN(snapshot.model, ReadSavedModel(model_path));
  snapshot.file_histories = std::move(state.histories);
  return snapshot;
}

StatusOr<std::vector<std::string>> FilesOfSnapshot(const std::string& state_path) {
  const std::string manifest_path = ManifestOf(state_path);
  const StatusOr<SnapshotManifest> manifest = ReadManifestFile(manifest_path);
  const bool in_parts = manifest.ok() && !manifest->part().empty();
  std::string state;
  if (!in_parts) {
    HP_ASSIGN_OR_RETURN(state, FindState(state_path));
  }
  std::vector<std::string> files;
  if (in_parts || (manifest.ok() && manifest->state().name() == FileName(state))) {
    files = FilesNamedBy(*manifest, manifest_path);
  } else {
    HP_ASSIGN_OR_RETURN(files, FilesNamedBy(state));
  }
  for (const std::string& file : files) {
    if (!Exists(file)) return NotFound("%s: no such file, and %s needs it", file.c_str(), state_path.c_str());
  }
  return files;
}

Status FitSnapshot(const std::string& state_path, const std::vector<SnapshotParam>& params, int histories,
                   LoadedSnapshot* snapshot) {
  if (snapshot->parts) {
    HP_RETURN_IF_ERROR(CheckParts(*snapshot->parts, snapshot->model.path, params));
    if (snapshot->manifest->histories() == histories) return OkStatus();
    return FailedPrecondition(
        "%s: %d histories of each parameter; expected %d: the snapshot belongs to another solver type",
        snapshot->model.path.c_str(), snapshot->manifest->histories(), histories);
  }
  HP_RETURN_IF_ERROR(CheckParams(snapshot->model, params));
  return TakeHistories(state_path, std::exchange(snapshot->file_histories, {}), params, histories,
                       &snapshot->histories);
}

StatusOr<LoadedSnapshot> ReadSnapshot(const std::string& state_path, const std::vector<SnapshotParam>& params,
                                      int histories) {
  HP_ASSIGN_OR_RETURN(LoadedSnapshot snapshot, ReadSnapshot(state_path));
  HP_RETURN_IF_ERROR(FitSnapshot(state_path, params, histories, &snapshot));
  if (snapshot.parts) HP_RETURN_IF_ERROR(ReadAllParts(&snapshot));
  return snapshot;
}

Status LoadedSnapshot::CopyArray(const std::string& layer, int blob, int array, const Shape& shape, const Block& block,
                                 std::span<float> out) const {
  if (!parts && array == 0) return model.CopyBlock(layer, blob, shape, block, out);
  std::fill(out.begin(), out.end(), 0.0f);
  if (parts) {
    const int i = parts->Find(layer, blob).value();
    return array == 0 || parts->Has(i, array) ? parts->ReadBlock(i, array, block, out) : OkStatus();
  }
  const auto found = histories.find({layer, blob});
  if (found != histories.end()) CutBlock(found->second.at(array - 1).data, shape, block, out);
  return OkStatus();
}

}  // namespace hp
