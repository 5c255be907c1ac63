// The slices of a blob may be rows or columns of it. Whoever reads a blob asks for a range of its bytes; the range is
// cut where it passes from one slice to another, at the end of each row where slices are columns. So a blob is never in
// memory as a whole to be merged, and one walk serves both kinds. A manifest with parts counts more than Caffe's files
// beside it: they may be those of a merge that was cut off.
#include "checkpoint/snapshot_parts.h"

#include "base/format.h"
#include "base/input_file.h"
#include "base/pending_file.h"
#include "checkpoint/snapshot_folder.h"
#include "checkpoint/snapshot_steps.h"

#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <optional>
#include <set>

namespace hp {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kMostElements = int64_t{1} << 40;  // of a blob; keeps products of what a manifest says defined

std::string InFolderOf(const std::string& path, const std::string& name) {
  return path.substr(0, path.rfind('/') + 1) + name;
}

StatusOr<Shape> ShapeOf(const SnapshotBlob& blob, const std::string& manifest_path) {
  int64_t count = 1;
  for (const int64_t dim : blob.dim()) {
    if (dim < 0 || (dim > 0 && count > kMostElements / dim))
      return DataLoss("%s: blob %d of layer \"%s\" has a dimension of %lld", manifest_path.c_str(), blob.blob(),
                      blob.layer().c_str(), static_cast<long long>(dim));
    count *= dim;
  }
  return Shape(std::vector<int64_t>(blob.dim().begin(), blob.dim().end()));
}

Status RemoveIfThere(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  return InvalidArgument("%s: cannot be removed: %s", path.c_str(), strerror(errno));
}

Status RemoveParts(const SnapshotManifest& manifest, const std::string& manifest_path,
                   const std::set<std::string>& but_not) {
  for (const SnapshotPart& part : manifest.part()) {
    if (!but_not.contains(part.file().name()))
      HP_RETURN_IF_ERROR(RemoveIfThere(InFolderOf(manifest_path, part.file().name())));
  }
  return OkStatus();
}

Status WriteManifestTo(const SnapshotManifest& manifest, PendingFile* file) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(manifest, &text))
    return InternalError("cannot write the manifest as text");
  HP_RETURN_IF_ERROR(file->Write(text));
  return file->Sync();
}

Status CheckSizes(const SnapshotManifest& manifest, const std::string& manifest_path) {
  for (const SnapshotPart& part : manifest.part()) {
    const std::string path = InFolderOf(manifest_path, part.file().name());
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return DataLoss("%s: is not there: %s", path.c_str(), strerror(errno));
    if (info.st_size != part.file().bytes()) {
      return DataLoss("%s: has %lld bytes; expected %lld", path.c_str(), static_cast<long long>(info.st_size),
                      static_cast<long long>(part.file().bytes()));
    }
  }
  return OkStatus();
}

void WarnOf(const Status& status, const std::string& manifest) {
  if (!status.ok()) LOG(WARNING) << manifest << ": the snapshot is complete, but " << status;
}

}  // namespace

std::string SnapshotPartPath(const std::string& prefix, int64_t iteration, int64_t start, int owner) {
  return Format("%s_iter_%" PRId64 ".%" PRId64 ".%d.slices", prefix.c_str(), iteration, start, owner);
}

Status CommitParts(const SnapshotContents& contents) {
  const SnapshotSteps steps(contents.before_step, contents.incarnation);
  const std::string path = SnapshotManifestPath(contents.prefix, contents.iteration);
  const std::string state = SnapshotStatePath(contents.prefix, contents.iteration);
  const std::string model = SnapshotModelPath(contents.prefix, contents.iteration);
  SnapshotManifest manifest = contents.manifest;
  manifest.set_iteration(contents.iteration);
  manifest.set_current_step(contents.current_step);
  HP_RETURN_IF_ERROR(CheckSizes(manifest, path));
  HP_RETURN_IF_ERROR(PartsReader::Open(manifest, path).status());
  std::unique_ptr<PendingFile> file;
  HP_RETURN_IF_ERROR(steps.Step("write", path, [&]() -> Status {
    HP_ASSIGN_OR_RETURN(file, PendingFile::Create(path, steps.suffix()));
    return WriteManifestTo(manifest, file.get());
  }));
  const StatusOr<SnapshotManifest> older = ReadManifestFile(path);
  for (const std::string& old : {path, state, model, state + ".h5", model + ".h5"}) {
    HP_RETURN_IF_ERROR(steps.Replace("remove", old, [&] { return RemoveIfThere(old); }));
  }
  HP_RETURN_IF_ERROR(steps.Step("sync the folder of", path, [&] { return SyncFolderOf(path); }));
  HP_RETURN_IF_ERROR(steps.Replace("rename", path, [&] { return file->Commit(); }));
  // It is complete now, whatever follows: whoever hears of an error removes the parts.
  WarnOf(steps.Step("sync the folder of", path, [&] { return SyncFolderOf(path); }), path);
  if (!older.ok()) return OkStatus();
  std::set<std::string> named;
  for (const SnapshotPart& part : manifest.part()) named.insert(part.file().name());
  WarnOf(RemoveParts(*older, path, named), path);
  return OkStatus();
}

Status MergeParts(const std::string& prefix, int64_t iteration, const caffe::NetParameter& net, const BlobUsers& users,
                  const Incarnation* incarnation, const std::function<void(const std::string& step)>& before_step,
                  int64_t most_message_bytes) {
  const std::string path = SnapshotManifestPath(prefix, iteration);
  HP_ASSIGN_OR_RETURN(const SnapshotManifest manifest, ReadManifestFile(path));
  if (manifest.part().empty()) return OkStatus();
  HP_ASSIGN_OR_RETURN(const auto reader, PartsReader::Open(manifest, path));
  SnapshotContents contents;
  contents.prefix = prefix;
  contents.iteration = iteration;
  contents.current_step = manifest.current_step();
  contents.net = &net;
  contents.incarnation = incarnation;
  contents.before_step = before_step;
  contents.most_message_bytes = most_message_bytes;
  contents.replaces_parts = true;
  contents.manifest = manifest;
  contents.manifest.clear_part();
  contents.manifest.clear_blob();
  for (int i = 0; i < reader->blobs(); ++i) {
    SnapshotParam& param = contents.params.emplace_back();
    param.layer = manifest.blob(i).layer();
    param.blob = manifest.blob(i).blob();
    param.shape = reader->shape(i);
    if (const auto of = users.find({param.layer, param.blob}); of != users.end()) param.users = of->second;
    for (int array = 0; array <= kMaxHistories; ++array) {
      if (!reader->Has(i, array)) continue;  // zeros
      param.arrays[array].read = [reader, i, array](int64_t begin, std::span<char> out) {
        return reader->Read(i, array, begin, out);
      };
    }
  }
  HP_ASSIGN_OR_RETURN(const auto pending, PrepareSnapshot(contents));
  HP_RETURN_IF_ERROR(pending->Commit());
  return RemoveParts(manifest, path, {});
}

// --- PartsReader

PartsReader::~PartsReader() {
  for (const int fd : fds_) close(fd);
}

StatusOr<std::shared_ptr<const PartsReader>> PartsReader::Open(const SnapshotManifest& manifest,
                                                               const std::string& manifest_path) {
  if (manifest.histories() < 1 || manifest.histories() > kMaxHistories) {
    return DataLoss("%s: %d histories; expected 1 to %d", manifest_path.c_str(), manifest.histories(), kMaxHistories);
  }
  std::shared_ptr<PartsReader> reader(new PartsReader());
  reader->manifest_path_ = manifest_path;
  for (const SnapshotBlob& blob : manifest.blob()) {
    HP_ASSIGN_OR_RETURN(Shape shape, ShapeOf(blob, manifest_path));
    reader->index_.emplace(BlobKey(blob.layer(), blob.blob()), reader->blobs());
    reader->shapes_.push_back(std::move(shape));
  }
  for (const SnapshotPart& part : manifest.part()) {
    HP_RETURN_IF_ERROR(reader->Add(part, InFolderOf(manifest_path, part.file().name()), manifest.histories()));
  }
  HP_RETURN_IF_ERROR(reader->CheckWhole());
  return std::shared_ptr<const PartsReader>(std::move(reader));
}

Status PartsReader::Add(const SnapshotPart& part, const std::string& path, int histories) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
  fds_.push_back(fd);
  int64_t offset = 0;
  for (const SnapshotSlice& slice : part.slice()) {
    const Block block{slice.begin_row(), slice.end_row(), slice.begin_col(), slice.end_col()};
    const bool known = slice.blob() >= 0 && slice.blob() < blobs();
    if (!known || !block.LiesIn(shape(slice.blob())))
      return DataLoss("%s: a slice of %s lies in no blob", manifest_path_.c_str(), part.file().name().c_str());
    const int array = slice.history() ? slice.history_number() : 0;
    if (slice.history() && (array < 1 || array > histories))
      return DataLoss("%s: a slice of history %d; expected 1 to %d", manifest_path_.c_str(), array, histories);
    slices_[{slice.blob(), array}].push_back({block, fd, offset});
    offset += block.count() * kFloat;
  }
  if (offset == part.file().bytes()) return OkStatus();
  return DataLoss("%s: %s has %lld bytes; its slices %lld", manifest_path_.c_str(), part.file().name().c_str(),
                  static_cast<long long>(part.file().bytes()), static_cast<long long>(offset));
}

Status PartsReader::CheckWhole() const {
  for (int i = 0; i < blobs(); ++i) {
    if (!Has(i, 0) && shape(i).count() > 0)
      return DataLoss("%s: blob %d of the net is in no part", manifest_path_.c_str(), i);
  }
  for (const auto& [of, slices] : slices_) {
    int64_t count = 0;
    for (const Slice& slice : slices) count += slice.block.count();
    if (count == shape(of.first).count()) continue;
    return DataLoss("%s: the slices of blob %d have %lld numbers; expected %lld", manifest_path_.c_str(), of.first,
                    static_cast<long long>(count), static_cast<long long>(shape(of.first).count()));
  }
  return OkStatus();
}

Status PartsReader::Read(int blob, int array, int64_t begin, std::span<char> out) const {
  const int64_t row_bytes = ColumnsOf(shape(blob)) * kFloat;
  const std::vector<Slice>& slices = slices_.at({blob, array});
  while (!out.empty()) {
    const int64_t row = begin / row_bytes, at = begin % row_bytes;
    const auto holds = [&](const Slice& slice) {
      return row >= slice.block.begin_row && row < slice.block.end_row && at >= slice.block.begin_col * kFloat &&
             at < slice.block.end_col * kFloat;
    };
    const auto slice = std::find_if(slices.begin(), slices.end(), holds);
    if (slice == slices.end())
      return DataLoss("%s: row %lld of blob %d is in no slice", manifest_path_.c_str(), static_cast<long long>(row),
                      blob);
    const Block& block = slice->block;
    const int64_t slice_row_bytes = block.cols() * kFloat;
    const int64_t in_slice = (row - block.begin_row) * slice_row_bytes + at - block.begin_col * kFloat;
    const int64_t left =
        slice_row_bytes == row_bytes ? block.rows() * row_bytes - in_slice : block.end_col * kFloat - at;
    const size_t bytes = static_cast<size_t>(std::min<int64_t>(left, static_cast<int64_t>(out.size())));
    const ssize_t got = pread(slice->fd, out.data(), bytes, slice->offset + in_slice);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return InvalidArgument("a part of %s cannot be read: %s", manifest_path_.c_str(), strerror(errno));
    if (got == 0) return DataLoss("a part of %s is too short", manifest_path_.c_str());
    out = out.subspan(static_cast<size_t>(got));
    begin += got;
  }
  return OkStatus();
}

std::optional<int> PartsReader::Find(const std::string& layer, int blob) const {
  const auto found = index_.find({layer, blob});
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

// Whole rows in one piece, else row by row.
Status PartsReader::ReadBlock(int blob, int array, const Block& block, std::span<float> out) const {
  const int64_t columns = ColumnsOf(shape(blob));
  const int64_t pieces = block.cols() == columns ? std::min<int64_t>(block.rows(), 1) : block.rows();
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const auto count = static_cast<size_t>(pieces > 1 ? block.cols() : block.count());
    const std::span<float> row = out.subspan(piece * count, count);
    const int64_t begin = (block.begin_row + piece) * columns + block.begin_col;
    HP_RETURN_IF_ERROR(Read(blob, array, begin * kFloat, {reinterpret_cast<char*>(row.data()), row.size_bytes()}));
  }
  return OkStatus();
}

Status ReadAllParts(LoadedSnapshot* snapshot) {
  const PartsReader& reader = *snapshot->parts;
  for (int i = 0; i < reader.blobs(); ++i) {
    const BlobKey key(snapshot->manifest->blob(i).layer(), snapshot->manifest->blob(i).blob());
    for (int array = 0; array <= snapshot->manifest->histories(); ++array) {
      Blob& blob = array == 0 ? snapshot->model.blobs[key] : snapshot->histories[key].emplace_back();
      blob.shape = reader.shape(i);
      blob.data.resize(blob.shape.count());
      if (reader.Has(i, array)) HP_RETURN_IF_ERROR(reader.ReadBlock(i, array, Block::Whole(blob.shape), blob.data));
    }
  }
  return OkStatus();
}

}  // namespace hp
