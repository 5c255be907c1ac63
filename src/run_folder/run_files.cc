#include "run_folder/run_files.h"

#include "base/pending_file.h"
#include "proto/text.h"
#include "scheduler/plan/table_maker.h"

#include "google/protobuf/text_format.h"
#include "run_folder/record.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hp {
namespace {

namespace fs = std::filesystem;

std::string AbsolutePath(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

/// Makes a path of the net absolute, and remembers it: without a slash behind it, so that others may follow its name.
void TakePath(std::string* path, std::vector<std::string>* all) {
  if (path->empty()) return;
  *path = AbsolutePath(*path);
  if (path->size() > 1 && path->back() == '/') path->pop_back();
  if (std::find(all->begin(), all->end(), *path) == all->end()) all->push_back(*path);
}

void TakePaths(caffe::LayerParameter* layer, RunFiles* files) {
  if (layer->type() == "Data") TakePath(layer->mutable_data_param()->mutable_source(), &files->data);
  if (layer->type() == "ImageData") {
    caffe::ImageDataParameter* const images = layer->mutable_image_data_param();
    TakePath(images->mutable_source(), &files->lists);
    // In front of names as it is, with or without a slash at its end.
    if (!images->root_folder().empty() && !fs::path(images->root_folder()).is_absolute()) {
      images->set_root_folder((fs::current_path() / images->root_folder()).string());
    }
  }
  if (layer->type() == "HDF5Data") TakePath(layer->mutable_hdf5_data_param()->mutable_source(), &files->lists);
  if (layer->transform_param().has_mean_file()) {
    TakePath(layer->mutable_transform_param()->mutable_mean_file(), &files->data);
  }
}

std::string TextOf(const google::protobuf::Message& message, const std::string& program) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return kWrittenBy + program + ".\n" + text;
}

}  // namespace

StatusOr<RunFiles> ReadRunFiles(const RoutingTableConfig& table, const std::string& solver_path,
                                const std::string& folder) {
  RunFiles files;
  files.table = table;
  files.table.set_solver("solver.prototxt");
  HP_ASSIGN_OR_RETURN(files.solver, ReadSolver(solver_path));
  HP_ASSIGN_OR_RETURN(files.net, NetOfSolver(files.solver));
  for (caffe::LayerParameter& layer : *files.net.mutable_layer()) {
    TakePaths(&layer, &files);
    layer.clear_place();  // of the file that was read
  }
  files.solver.clear_net_param();
  // Absolute: a relative one would be looked for in the node's working directory first.
  files.solver.set_net(folder + "/net.prototxt");
  HP_ASSIGN_OR_RETURN(*files.solver.mutable_snapshot_prefix(), RunSnapshotPrefix(files.solver, solver_path, folder));
  return files;
}

StatusOr<std::string> RunSnapshotPrefix(const caffe::SolverParameter& solver, const std::string& solver_path,
                                        const std::string& folder) {
  caffe::SolverParameter as_written;
  HP_RETURN_IF_ERROR(ReadTextProto(solver_path, &as_written));
  if (fs::path(as_written.snapshot_prefix()).is_absolute()) return solver.snapshot_prefix();
  const std::string last = fs::path(solver.snapshot_prefix()).filename().string();
  return folder + "/snapshots/" + (last.empty() ? fs::path(solver_path).stem().string() : last);
}

// The table last: who reads it finds the other two.
StatusOr<std::vector<std::string>> WriteRunFiles(const RunFiles& files, const std::string& folder,
                                                 const std::string& program) {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {folder + "/net.prototxt", TextOf(files.net, program)},
      {folder + "/solver.prototxt", TextOf(files.solver, program)},
      {folder + "/table.prototxt", TableText(files.table, files.comment)}};
  std::vector<std::string> paths;
  for (const auto& [path, text] : texts) {
    HP_RETURN_IF_ERROR(WriteWholeFile(path, text));
    paths.insert(paths.begin(), path);
  }
  return paths;
}

StatusOr<std::vector<std::string>> FilesBelow(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator next(path, error), end; !error && next != end; next.increment(error)) {
    const std::string name = next->path().filename().string();
    if (next->is_regular_file() && name != "LOCK" && name != "lock.mdb") files.push_back(next->path().string());
  }
  if (error) return NotFound("%s: %s", path.c_str(), error.message().c_str());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace hp
