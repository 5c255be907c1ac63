#include "commands/local_job.h"

#include "base/format.h"
#include "base/hash.h"
#include "base/pending_file.h"
#include "base/words.h"
#include "commands/make_table.h"
#include "proto/text.h"

#include "glog/logging.h"
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

namespace hp {
namespace {

namespace fs = std::filesystem;

/// A path of the solver's, as the solver that is written can have it.
void Anchor(const std::string& solver, std::string* path) {
  std::error_code error;
  if (!fs::exists(*path, error)) *path = PathBeside(solver, *path);
  *path = fs::absolute(*path, error).string();
}

/// What the names of hptrain's own files begin with: beside the snapshots, or where nothing can be written there, in a
/// new folder for temporary files: a job without snapshots trains from a folder that others own, or names one that is
/// not there, as with Caffe.
std::string OwnPrefix(const caffe::SolverParameter& solver) {
  const std::string prefix = solver.snapshot_prefix() + "_hptrain", folder = fs::path(prefix).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) == 0) return prefix;
  const bool asked = solver.snapshot() > 0 || solver.snapshot_after_train();
  if (errno != EACCES && errno != EROFS && (asked || (errno != ENOENT && errno != ENOTDIR))) return prefix;
  std::error_code error;
  std::string own = fs::temp_directory_path(error) / "hptrain-XXXXXX";
  if (error || mkdtemp(own.data()) == nullptr) return prefix;  // whoever writes there says what is wrong
  return own + "/hptrain";
}

/// Writes one of hptrain's own files. Its name follows from what is in it, so that a job that starts at the same time
/// with other flags, and the same snapshot_prefix, does not replace it before hpnode reads it. @return its path.
StatusOr<std::string> WriteOwnFile(const std::string& prefix, const std::string& text) {
  const std::string path = prefix + Format("_%08llx.prototxt", static_cast<unsigned long long>(HashBytes(text) >> 32));
  HP_RETURN_IF_ERROR(WriteWholeFile(path, text, Format(".%d.tmp", getpid())));
  return path;
}

/// A solver that can be read only once, such as a pipe, is kept in a file of a new folder: hpnode reads it as well.
/// @return the file's path; `solver` where that is a file already, or nothing.
StatusOr<std::string> KeptSolver(const std::string& solver) {
  std::error_code error;
  if (!fs::is_other(solver, error)) return solver;
  std::ifstream stream(solver, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream) return NotFound("%s: can't be read", solver.c_str());
  std::string folder = fs::temp_directory_path(error) / "hptrain-XXXXXX";
  if (error || mkdtemp(folder.data()) == nullptr) {
    return NotFound("%s: no folder for a copy of it can be made at %s", solver.c_str(), folder.c_str());
  }
  const std::string path = folder + "/solver.prototxt";
  HP_RETURN_IF_ERROR(WriteWholeFile(path, text));
  LOG(INFO) << "the solver of " << solver << " is kept as " << path;
  return path;
}

/// The solver's text with the job's changes.
StatusOr<std::string> ChangedSolver(const LocalJob& job, const std::string& prefix) {
  caffe::SolverParameter solver;
  HP_RETURN_IF_ERROR(ReadTextProto(job.solver, &solver));
  if (solver.has_net()) Anchor(job.solver, solver.mutable_net());
  if (solver.has_train_net()) Anchor(job.solver, solver.mutable_train_net());
  for (std::string& net : *solver.mutable_test_net()) Anchor(job.solver, &net);
  const std::vector<std::string> weights = WeightsOf(solver);
  solver.clear_weights();
  for (std::string file : weights) {
    Anchor(job.solver, &file);
    solver.add_weights(file);
  }
  solver.set_snapshot_prefix(prefix);  // by default it follows from the solver's file name
  if (job.iterations > 0) solver.set_max_iter(static_cast<int>(job.iterations));
  if (job.level) solver.mutable_train_state()->set_level(*job.level);
  for (const std::string& stage : job.stages) solver.mutable_train_state()->add_stage(stage);
  std::string text;
  google::protobuf::TextFormat::PrintToString(solver, &text);
  return "# " + job.solver + " as hptrain was asked to run it.\n" + text;
}

/// A fault's text without "FILE:LINE: " of that file.
std::string WithoutPlaces(std::string text, const std::string& file) {
  for (size_t at = 0; (at = text.find(file + ":", at)) != std::string::npos;) {
    const size_t end = text.find(": ", at + file.size());
    text.erase(at, end == std::string::npos ? end : end + 2 - at);
  }
  return text;
}

TableRequest RequestOf(const LocalJob& job) {
  TableRequest request;
  request.hosts = {};
  for (int gpu : job.gpus) request.hosts.push_back("localhost/cuda:" + std::to_string(gpu));
  if (job.gpus.empty()) request.hosts = {"localhost"};
  request.conv = {static_cast<int>(request.hosts.size())};
  request.per_replica = job.gpus.size() > 1;
  request.precision = job.precision;
  request.convolution_engines = job.convolution_engines;
  request.jpeg_decoder = job.jpeg_decoder;
  request.micro_batches = 1;  // as Caffe: all of a replica's batch at once
  return request;
}

}  // namespace

StatusOr<std::vector<int>> GpusOfFlag(const std::string& text, const std::function<StatusOr<int>()>& count) {
  std::vector<int> gpus;
  if (text == "all") {
    const StatusOr<int> counted = count();
    if (!counted.ok()) return counted.status().Prepend("--gpu=all");
    if (*counted == 0) return FailedPrecondition("--gpu=all: this machine has no GPU");
    gpus.resize(*counted);
    std::iota(gpus.begin(), gpus.end(), 0);
    return gpus;
  }
  for (const std::string& item : SplitList(text)) {
    int gpu = -1;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), gpu);
    if (error != std::errc() || end != item.data() + item.size() || gpu < 0) {
      return InvalidArgument("--gpu=%s: \"%s\" is no GPU; expected numbers from 0 on, or all", text.c_str(),
                             item.c_str());
    }
    if (std::find(gpus.begin(), gpus.end(), gpu) != gpus.end()) {
      return InvalidArgument("--gpu=%s names GPU %d twice", text.c_str(), gpu);
    }
    gpus.push_back(gpu);
  }
  if (gpus.empty() && !text.empty()) {
    return InvalidArgument("--gpu=%s names no GPU; expected numbers from 0 on, or all", text.c_str());
  }
  return gpus;
}

StatusOr<std::string> DeviceOfFlags(const std::string& device, const std::string& gpu,
                                    const std::function<StatusOr<int>()>& count) {
  if (gpu.empty()) return device;
  if (device != "cpu") {
    return InvalidArgument("--gpu=%s and --device=%s name a device each; expected one of them", gpu.c_str(),
                           device.c_str());
  }
  HP_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOfFlag(gpu, count));
  for (size_t i = 1; i < gpus.size(); ++i) LOG(INFO) << "Not using GPU #" << gpus[i] << " for single-GPU function";
  return "cuda:" + std::to_string(gpus[0]);
}

StatusOr<std::string> WriteLocalJob(const LocalJob& given) {
  LocalJob job = given;
  HP_ASSIGN_OR_RETURN(job.solver, KeptSolver(given.solver));
  HP_ASSIGN_OR_RETURN(const caffe::SolverParameter read, ReadSolver(job.solver));
  const std::string prefix = OwnPrefix(read);
  std::string solver = job.solver;
  if (job.level || !job.stages.empty() || job.iterations > 0) {
    HP_ASSIGN_OR_RETURN(const std::string text, ChangedSolver(job, read.snapshot_prefix()));
    HP_ASSIGN_OR_RETURN(solver, WriteOwnFile(prefix + "_solver", text));
    LOG(INFO) << "the solver as it is run: " << solver;
  }
  TableRequest request = RequestOf(job);
  request.solver = SolverFromTable(solver, prefix);
  StatusOr<MadeTable> made = MakeTableOf(solver, "localhost", true, &request);
  if (!made.ok() && solver != job.solver) {
    // A fault that the user's own file has as well is told with its line there.
    TableRequest own = RequestOf(job);
    own.solver = SolverFromTable(job.solver, prefix);
    const Status same = MakeTableOf(job.solver, "localhost", true, &own).status();
    if (WithoutPlaces(same.message(), job.solver) == WithoutPlaces(made.status().message(), solver)) return same;
  }
  HP_RETURN_IF_ERROR(made.status());
  const int threads = ThreadsOfEnvironment();
  for (auto& node : *made->config.mutable_node()) {
    if (threads > 0 && job.gpus.empty()) node.set_threads(threads);
  }
  for (const std::string& warning : made->warnings) LOG(WARNING) << warning;
  const std::string text =
      TableText(made->config, "Routing table of hpnode, written by hptrain\nfor this machine alone.");
  HP_ASSIGN_OR_RETURN(const std::string table, WriteOwnFile(prefix + "_table", text));
  LOG(INFO) << "the table of this machine: " << table;
  LOG_IF(INFO, request.per_replica) << "each of " << job.gpus.size()
                                    << " GPUs has the net's batch_size, as in Caffe: the batch is " << job.gpus.size()
                                    << " times as large; that of a test is as it is";
  return table;
}

}  // namespace hp
