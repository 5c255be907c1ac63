// Trains on this machine with the flags of `caffe train`: writes a routing table and becomes hpnode.
#include "base/words.h"
#include "commands/local_job.h"
#include "commands/table_options.h"
#include "tools/tool_main.h"

#include "devices/devices.h"
#include <gflags/gflags.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

DEFINE_string(solver, "", "The solver (prototxt).");
DEFINE_string(snapshot, "", "Resume from this .solverstate; latest: from the newest complete snapshot.");
DEFINE_string(weights, "",
              "Take initial weights from this .caffemodel, or several with commas, layer by layer by name.");
DEFINE_string(gpu, "",
              "GPUs to train on, separated by commas, or all; empty: the processors. Each GPU has the net's "
              "batch_size, as in Caffe.");
DEFINE_string(
    precision, "FP32",
    "How products are computed: FP32, or faster and with fewer digits BF16, on GPUs TF32 and FP16 as well; AUTO: "
    "BF16 where it can be done.");
DEFINE_string(
    convolution_engines, "HEURISTIC",
    "Which of cuDNN's engines compute convolutions on GPUs: HEURISTIC, those that cuDNN puts first; TIMED, the "
    "fastest, which are timed before training and kept beside the snapshots, so that the next start has the "
    "same bits.");
DEFINE_string(
    jpeg_decoder, "HOST",
    "Who decodes the JPEGs of records, which changes pixels by a few levels: HOST, or GPU, nvJPEG on the GPUs "
    "of --gpu.");
DEFINE_int64(iterations, 0, "Train so many iterations; 0: the solver's max_iter, which it replaces.");
DEFINE_int32(
    level, 0,
    "Level of the training net's state, for the layers' include and exclude rules; not given: as the solver says.");
DEFINE_string(stage, "", "Stages of the training net's state, separated by commas.");
DEFINE_string(phase, "TRAIN", "TRAIN: hptrain trains. hptest tests, and hptime times either phase.");
DEFINE_int64(max_bad_records, 0,
             "How many records of each phase may be missing, damaged or of another shape. Each is named in the log, "
             "and the next "
             "good one of the data stands in for it.");
DEFINE_string(cache_dir, "",
              "Folder that caches the record indexes of databases; empty: ~/.cache/hpnode; none: no cache.");
DEFINE_string(
    csv, "",
    "Write the curves of the training to this file, with Caffe2's columns: a row for each display and each test.");
DEFINE_string(tensorboard, "", "Write the curves to an event file in this folder, for TensorBoard.");
DEFINE_string(sigint_effect, "stop", "What SIGINT does: stop (with a snapshot), snapshot or none.");
DEFINE_string(sighup_effect, "snapshot", "What SIGHUP does: snapshot, stop or none.");

namespace hp {
namespace {

constexpr char kUsage[] =
    R"(Trains on this machine, with the flags of caffe train. It writes a routing table for this machine beside the snapshots
(SNAPSHOT_PREFIX_hptrain_table_XXXXXXXX.prototxt) and runs it: hpnode --all --routing=TABLE. For several hosts: hplaunch.
On processors it computes with OMP_NUM_THREADS threads where that is set, else with one per core.

  hptrain --solver=SOLVER.prototxt [--weights=FILE | --snapshot=FILE] [--gpu=0,1|all]

Example:
  hptrain --solver=lenet_solver.prototxt
)";

/// The flags of glog that were given: hpnode logs on.
void AddLogFlags(std::vector<std::string>* arguments) {
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  for (const gflags::CommandLineFlagInfo& flag : flags) {
    const bool of_glog = flag.filename.ends_with("logging.cc") || flag.filename.ends_with("vlog_is_on.cc");
    if (of_glog && !flag.is_default) arguments->push_back("--" + flag.name + "=" + flag.current_value);
  }
}

/// Becomes hpnode, which lies beside this program.
Status Become(const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "hpnode";
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  return NotFound("%s can't be started: %s", program.c_str(), strerror(errno));
}

Status Run() {
  if (FLAGS_solver.empty()) return InvalidArgument("--solver=SOLVER.prototxt is missing (hptrain --help)");
  if (!FLAGS_snapshot.empty() && !FLAGS_weights.empty()) {
    return InvalidArgument("--snapshot resumes a training and --weights begins one; expected one of them");
  }
  if (FLAGS_phase != "TRAIN") {
    return InvalidArgument("--phase is \"%s\"; hptrain trains (TRAIN). hptest tests, and hptime times either phase",
                           FLAGS_phase.c_str());
  }
  if (FLAGS_iterations < 0 || FLAGS_iterations > INT32_MAX) {
    return InvalidArgument("--iterations is %lld; expected 0 to %d", static_cast<long long>(FLAGS_iterations),
                           INT32_MAX);
  }
  HP_RETURN_IF_ERROR(CheckMaxBadRecords(FLAGS_max_bad_records));
  LocalJob job{FLAGS_solver, {}, IfGiven("level", FLAGS_level), SplitList(FLAGS_stage), FLAGS_iterations};
  HP_ASSIGN_OR_RETURN(job.precision, PrecisionOf(FLAGS_precision));
  HP_ASSIGN_OR_RETURN(job.convolution_engines, ConvolutionEnginesOf(FLAGS_convolution_engines));
  HP_ASSIGN_OR_RETURN(job.jpeg_decoder, JpegDecoderOf(FLAGS_jpeg_decoder));
  HP_ASSIGN_OR_RETURN(job.gpus, GpusOfFlag(FLAGS_gpu, CountGpus));
  HP_ASSIGN_OR_RETURN(const std::string table, WriteLocalJob(job));
  std::vector<std::string> arguments = {"--all", "--routing=" + table, "--sigint_effect=" + FLAGS_sigint_effect,
                                        "--sighup_effect=" + FLAGS_sighup_effect};
  AddLogFlags(&arguments);
  if (!FLAGS_snapshot.empty()) arguments.push_back("--resume=" + FLAGS_snapshot);
  if (!FLAGS_weights.empty()) arguments.push_back("--weights=" + FLAGS_weights);
  if (FLAGS_max_bad_records > 0) arguments.push_back("--max_bad_records=" + std::to_string(FLAGS_max_bad_records));
  if (!FLAGS_cache_dir.empty()) arguments.push_back("--cache_dir=" + FLAGS_cache_dir);
  if (!FLAGS_csv.empty()) arguments.push_back("--csv=" + FLAGS_csv);
  if (!FLAGS_tensorboard.empty()) arguments.push_back("--tensorboard=" + FLAGS_tensorboard);
  return Become(arguments);
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"hptrain", hp::kUsage, 0, 0, nullptr, "train"};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>&) { return hp::Run(); });
}
