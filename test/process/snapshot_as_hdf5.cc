// Makes HDF5 files of a snapshot, as one above 2 GiB has them, and removes the others:
//   snapshot_as_hdf5 PREFIX_iter_N.solverstate [--caffe]
// --caffe: without a manifest, as Caffe writes them.
#include "base/pending_file.h"
#include "checkpoint/hdf5_file.h"
#include "checkpoint/summed_file.h"

#include "google/protobuf/text_format.h"

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

hp::Status Describe(const std::string& path, hp::SnapshotFile* file) {
  HP_ASSIGN_OR_RETURN(const hp::FileSum sum, hp::SumFile(path));
  file->set_name(fs::path(path).filename().string());
  file->set_bytes(sum.bytes);
  file->set_xxh64(sum.xxh64);
  return hp::OkStatus();
}

hp::Status Convert(const std::string& state_path, bool caffe) {
  HP_ASSIGN_OR_RETURN(hp::LoadedSnapshot snapshot, hp::ReadSnapshot(state_path));
  if (!snapshot.manifest || snapshot.parts) return hp::InvalidArgument("%s: expected merged", state_path.c_str());
  hp::BlobRefs values;
  for (const auto& [key, blob] : snapshot.model.blobs) values[key] = {blob.shape, blob.data.data()};
  std::vector<hp::BlobRef> histories;
  for (const hp::Blob& blob : snapshot.file_histories) histories.push_back({blob.shape, blob.data.data()});
  const std::string model = snapshot.model.path + ".h5", state = state_path + ".h5";
  caffe::SolverState head;
  head.set_iter(static_cast<int>(snapshot.iteration));
  head.set_current_step(snapshot.current_step);
  head.set_learned_net(model);
  head.set_has_manifest(!caffe);
  HP_RETURN_IF_ERROR(hp::WriteHdf5Model(model, values));
  HP_RETURN_IF_ERROR(hp::WriteHdf5State(state, head, histories));
  const std::string manifest_path = fs::path(state_path).replace_extension(".hpnode").string();
  for (const std::string& old : {snapshot.model.path, state_path, manifest_path}) fs::remove(old);
  if (caffe) return hp::OkStatus();
  HP_RETURN_IF_ERROR(Describe(model, snapshot.manifest->mutable_model()));
  HP_RETURN_IF_ERROR(Describe(state, snapshot.manifest->mutable_state()));
  std::string text;
  google::protobuf::TextFormat::PrintToString(*snapshot.manifest, &text);
  return hp::WriteWholeFile(manifest_path, text);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  const hp::Status status = Convert(argv[1], argc == 3 && std::string(argv[2]) == "--caffe");
  if (!status.ok()) std::cerr << status << "\n";
  return hp::ExitStatus(status);
}
