// A snapshot counts as complete when its manifest is there and agrees with the other two files. So the manifest is the
// last file to be renamed and the first to be removed, with the folder synced in between, and each state says that it
// has one (has_manifest): a state without its manifest is refused.
#include "checkpoint/snapshot.h"

#include "base/format.h"
#include "base/pending_file.h"
#include "checkpoint/hdf5_file.h"
#include "checkpoint/message_file.h"
#include "checkpoint/snapshot_steps.h"
#include "checkpoint/summed_file.h"
#include "checkpoint/weights_stream.h"

#include "glog/logging.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/text_format.h"
#include "hdf5/hdf5_api.h"
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

namespace hp {
namespace {

using google::protobuf::io::CodedOutputStream;

std::string PathOf(const std::string& prefix, int64_t iteration, const char* extension) {
  return Format("%s_iter_%" PRId64 ".%s", prefix.c_str(), iteration, extension);
}

/// By owner. Source: Caffe, src/caffe/net.cpp, Net::ToHDF5.
BlobRefs ValuesOf(const SnapshotContents& contents) {
  BlobRefs blobs;
  for (const SnapshotParam& param : contents.params) blobs[{param.layer, param.blob}] = param.Ref(0);
  return blobs;
}

/// By all names. Source: Caffe, src/caffe/net.cpp, Net::ToProto: each layer writes all of its blobs.
BlobRefs NamedValuesOf(const SnapshotContents& contents) {
  BlobRefs blobs = ValuesOf(contents);
  for (const SnapshotParam& param : contents.params) {
    for (const SharedBlob& user : param.users) {
      BlobRef& blob = blobs[{user.layer, user.blob}] = param.Ref(0);
      blob.shape = user.shape;
    }
  }
  return blobs;
}

/// In the order of Caffe's file: the first history of each parameter, then the second ones.
std::vector<BlobRef> HistoriesOf(const SnapshotContents& contents) {
  std::vector<BlobRef> blobs;
  for (int number = 1; number <= contents.manifest.histories(); ++number) {
    for (const SnapshotParam& param : contents.params) blobs.push_back(param.Ref(number));
  }
  return blobs;
}

caffe::SolverState HeadOf(const SnapshotContents& contents, const std::string& model_path) {
  caffe::SolverState head;
  head.set_iter(static_cast<int>(contents.iteration));
  head.set_learned_net(model_path);
  head.set_current_step(contents.current_step);
  head.set_has_manifest(true);
  return head;
}

int64_t ParameterBytes(const SnapshotContents& contents) {
  int64_t bytes = 0;
  for (const SnapshotParam& param : contents.params) {
    bytes += param.shape.count() * static_cast<int64_t>((1 + param.users.size()) * sizeof(float));
  }
  return bytes;
}

/// A file that HDF5's library writes by its temporary name. It does not write from the front to the end, so the sum is
/// made of what is there at last.
class Hdf5File : public WrittenFile {
 public:
  template <typename Write>
  static StatusOr<std::unique_ptr<WrittenFile>> Make(const std::string& path, const std::string& suffix,
                                                     const Write& write) {
    HP_ASSIGN_OR_RETURN(auto pending, PendingFile::Create(path, suffix));
    HP_RETURN_IF_ERROR(write(pending->temporary()));
    HP_RETURN_IF_ERROR(pending->Sync());
    HP_ASSIGN_OR_RETURN(const FileSum sum, SumFile(pending->temporary()));
    return std::unique_ptr<WrittenFile>(new Hdf5File(std::move(pending), sum));
  }
  Status Commit() override { return file_->Commit(); }
  const std::string& path() const override { return file_->path(); }
  int64_t bytes() const override { return sum_.bytes; }
  uint64_t xxh64() const override { return sum_.xxh64; }

 private:
  Hdf5File(std::unique_ptr<PendingFile> file, const FileSum& sum) : file_(std::move(file)), sum_(sum) {}
  const std::unique_ptr<PendingFile> file_;
  const FileSum sum_;
};

Status WriteState(const SnapshotContents& contents, const caffe::SolverState& head, SummedFile* file) {
  int64_t bytes = static_cast<int64_t>(head.ByteSizeLong());
  const std::vector<BlobRef> histories = HistoriesOf(contents);
  for (const BlobRef& history : histories) bytes += BlobFieldBytes(history);
  if (bytes > kMaxMessageBytes2GiB) {
    return ResourceExhausted("%s: %.2f GB of histories exceed the 2 GiB limit of a .solverstate (protobuf)",
                             file->path().c_str(), static_cast<double>(bytes) * 1e-9);
  }
  CodedOutputStream out(file->stream());
  head.SerializeToCodedStream(&out);
  for (const BlobRef& history : histories) {
    HP_RETURN_IF_ERROR(WriteBlobField(caffe::SolverState::kHistoryFieldNumber, history, &out));
  }
  return OkStatus();
}

void Describe(const WrittenFile& file, SnapshotFile* out) {
  out->set_name(std::filesystem::path(file.path()).filename().string());
  out->set_bytes(file.bytes());
  out->set_xxh64(file.xxh64());
}

Status WriteManifest(const SnapshotManifest& manifest, SummedFile* file) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(manifest, &text))
    return InternalError("cannot write the manifest as text");
  CodedOutputStream out(file->stream());
  out.WriteString(text);
  return OkStatus();
}

// A file that is being replaced: its absence is as good.
Status Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  return InvalidArgument("%s: cannot be replaced: %s", path.c_str(), strerror(errno));
}

class ThreeFiles : public PendingSnapshot {
 public:
  explicit ThreeFiles(const SnapshotContents& contents)
      : steps_(contents.before_step, contents.incarnation), replaces_parts_(contents.replaces_parts) {}

  Status Write(const SnapshotContents& contents) {
    const auto [prefix, iteration] = std::pair(contents.prefix, contents.iteration);
    SnapshotManifest manifest = contents.manifest;
    manifest.set_iteration(iteration);
    const std::string end = SnapshotEnding(ParameterBytes(contents), contents.most_message_bytes);
    const std::string model = SnapshotModelPath(prefix, iteration) + end;
    const std::string state = SnapshotStatePath(prefix, iteration) + end;
    HP_RETURN_IF_ERROR(!end.empty() ? WriteHdf5(contents, model, state) : WriteMessages(contents, model, state));
    Describe(*model_, manifest.mutable_model());
    Describe(*state_, manifest.mutable_state());
    return WriteFile(SnapshotManifestPath(prefix, iteration), &manifest_,
                     [&](SummedFile* file) { return WriteManifest(manifest, file); });
  }

  // An old snapshot of the same iteration goes first, its manifest ahead, so that no mixture of the two is ever taken
  // for a whole one. One in parts goes last: its manifest has the same numbers, and does not mind what else is there.
  Status Commit() override {
    if (!replaces_parts_) HP_RETURN_IF_ERROR(RemoveOld());
    for (WrittenFile* file : {model_.get(), state_.get()}) {
      HP_RETURN_IF_ERROR(steps_.Replace("rename", file->path(), [&] { return file->Commit(); }));
    }
    HP_RETURN_IF_ERROR(steps_.Step("sync the folder of", model_->path(), [&] { return SyncFolderOf(model_->path()); }));
    HP_RETURN_IF_ERROR(steps_.Replace("rename", manifest_->path(), [&] { return manifest_->Commit(); }));
    return steps_.Step("sync the folder of", model_->path(), [&] { return SyncFolderOf(model_->path()); });
  }

 private:
  Status WriteMessages(const SnapshotContents& contents, const std::string& model, const std::string& state) {
    HP_RETURN_IF_ERROR(WriteFile(
        model, &model_, [&](SummedFile* file) { return WriteModelTo(*contents.net, NamedValuesOf(contents), file); }));
    return WriteFile(state, &state_,
                     [&](SummedFile* file) { return WriteState(contents, HeadOf(contents, model), file); });
  }

  Status WriteHdf5(const SnapshotContents& contents, const std::string& model, const std::string& state) {
    for (const SnapshotParam& param : contents.params) {
      if (param.layer.find('/') == std::string::npos) continue;
      LOG(INFO) << model << ": Caffe cannot read the layers with a '/' in their names, such as \"" << param.layer
                << "\", from an HDF5 file; it reads a .caffemodel (snapshot_format: BINARYPROTO)";
      break;
    }
    HP_RETURN_IF_ERROR(steps_.Step("write", model, [&]() -> Status {
      HP_ASSIGN_OR_RETURN(model_, Hdf5File::Make(model, steps_.suffix(), [&](const std::string& temporary) {
                            return WriteHdf5Model(temporary, ValuesOf(contents));
                          }));
      return OkStatus();
    }));
    return steps_.Step("write", state, [&]() -> Status {
      HP_ASSIGN_OR_RETURN(state_, Hdf5File::Make(state, steps_.suffix(), [&](const std::string& temporary) {
                            return WriteHdf5State(temporary, HeadOf(contents, model), HistoriesOf(contents));
                          }));
      return OkStatus();
    });
  }

  Status RemoveOld() {
    for (WrittenFile* file : {manifest_.get(), state_.get()}) {
      HP_RETURN_IF_ERROR(steps_.Replace("remove", file->path(), [&] { return Remove(file->path()); }));
    }
    return steps_.Step("sync the folder of", model_->path(), [&] { return SyncFolderOf(model_->path()); });
  }

  template <typename Writer>
  Status WriteFile(const std::string& path, std::unique_ptr<WrittenFile>* out, const Writer& writer) {
    return steps_.Step("write", path, [&]() -> Status {
      HP_ASSIGN_OR_RETURN(auto file, SummedFile::Create(path, steps_.suffix()));
      HP_RETURN_IF_ERROR(writer(file.get()));
      HP_RETURN_IF_ERROR(file->Sync());
      *out = std::move(file);
      return OkStatus();
    });
  }

  const SnapshotSteps steps_;
  const bool replaces_parts_;
  std::unique_ptr<WrittenFile> model_, state_, manifest_;
};

}  // namespace

const char* SnapshotEnding(int64_t parameter_bytes, int64_t most_message_bytes) {
  return parameter_bytes > most_message_bytes ? ".h5" : "";
}

int64_t MostMessageBytes(const caffe::SolverParameter& solver) {
  if (solver.snapshot_format() == caffe::SolverParameter::HDF5) return -1;
  return kMostMessageBytes / hp::HistoriesOf(solver);
}

Status CheckSnapshotSize(const caffe::SolverParameter& solver, int64_t bytes) {
  if (solver.snapshot() == 0 && !solver.snapshot_after_train()) return OkStatus();
  if (bytes <= MostMessageBytes(solver)) return OkStatus();
  const Status status = CheckHdf5();
  if (status.ok()) return status;
  constexpr char kWithout[] = "set snapshot: 0 and snapshot_after_train: false to train without snapshots";
  if (MostMessageBytes(solver) < 0) {
    return InvalidArgument("snapshot_format: HDF5; %s; expected BINARYPROTO, or %s", status.message().c_str(),
                           kWithout);
  }
  return InvalidArgument(
      "%.2f GB of parameters: above %.2f GB the snapshots of solver type %s are HDF5 files, and %s; %s",
      static_cast<double>(bytes) * 1e-9, static_cast<double>(MostMessageBytes(solver)) * 1e-9, solver.type().c_str(),
      status.message().c_str(), kWithout);
}

std::string SnapshotModelPath(const std::string& prefix, int64_t iteration) {
  return PathOf(prefix, iteration, "caffemodel");
}
std::string SnapshotStatePath(const std::string& prefix, int64_t iteration) {
  return PathOf(prefix, iteration, "solverstate");
}
std::string SnapshotManifestPath(const std::string& prefix, int64_t iteration) {
  return PathOf(prefix, iteration, "hpnode");
}

StatusOr<std::unique_ptr<PendingSnapshot>> PrepareSnapshot(const SnapshotContents& contents) {
  auto files = std::make_unique<ThreeFiles>(contents);
  HP_RETURN_IF_ERROR(files->Write(contents));
  return std::unique_ptr<PendingSnapshot>(std::move(files));
}

}  // namespace hp
