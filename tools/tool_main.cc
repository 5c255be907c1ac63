#include "tools/tool_main.h"

#include "base/cores.h"
#include "base/out_of_memory.h"
#include "base/version.h"

#include <fcntl.h>
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string_view>

DECLARE_bool(help);
DECLARE_bool(helpshort);

namespace hp {
namespace {

constexpr int kWrongInput = 2;

void PrintHelp(const ToolUsage& usage) {
  std::cout << usage.text << "\n";
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  const std::string own_file = usage.source != nullptr ? usage.source : std::string(usage.name) + ".cc";
  bool first = true;
  for (const auto& flag : flags) {
    if (!flag.filename.ends_with(own_file)) continue;  // gflags' and glog's own: --helpfull
    if (first) std::cout << "Flags:\n";
    first = false;
    const std::string quote = flag.type == "string" ? "\"" : "";
    std::cout << "  --" << flag.name << "  " << flag.description << " (default " << quote << flag.default_value << quote
              << ")\n";
  }
}

/// Takes out flags that `caffe` has and this program does not, with their values. @return their names.
std::vector<std::string> DropFlagsOfCaffe(int* argc, char** argv) {
  static constexpr std::string_view kFlags[] = {"gpu",        "solver",        "model",        "phase",
                                                "level",      "stage",         "snapshot",     "weights",
                                                "iterations", "sigint_effect", "sighup_effect"};
  std::vector<std::string> dropped;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view word = argv[i];
    const size_t begin = word.starts_with("--") ? 2 : 1, end = std::min(word.find('='), word.size());
    const std::string name(word.starts_with("-") ? word.substr(std::min(begin, end), end - std::min(begin, end)) : "");
    const bool valued = end < word.size() || i + 1 < *argc;  // by the next word
    const bool of_caffe = valued && std::find(std::begin(kFlags), std::end(kFlags), name) != std::end(kFlags);
    gflags::CommandLineFlagInfo own;
    if (word == "--" || !of_caffe || gflags::GetCommandLineFlagInfo(name.c_str(), &own)) {
      argv[kept++] = argv[i];
      if (word != "--") continue;
      while (++i < *argc) argv[kept++] = argv[i];
      break;
    }
    if (end == word.size()) ++i;
    dropped.push_back(name);
  }
  *argc = kept;
  argv[kept] = nullptr;
  return dropped;
}

// The default of the signal. Where that is nothing, because the kernel spares a container's first process the signals
// that it has no handler for, raise returns.
extern "C" void EndBySignal(int signal) {
  raise(signal);
  _exit(128 + signal);
}

/// SIGINT and SIGTERM end the process, whichever it is of its container. Who started it may have them ignored (nohup, a
/// shell's &): that stays so.
void EndWhenSignalled() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before = {}, action = {};
    if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    action.sa_handler = &EndBySignal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

bool IsGiven(const char* flag) { return !gflags::GetCommandLineFlagInfoOrDie(flag).is_default; }

std::optional<int> IfGiven(const char* flag, int value) { return IsGiven(flag) ? std::optional(value) : std::nullopt; }

void OpenStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);  // gets the lowest number that is free
  }
}

void LogAsCaffe() {
  gflags::SetCommandLineOptionWithMode("logtostderr", "true", gflags::SET_FLAGS_DEFAULT);
  FLAGS_log_year_in_prefix = false;  // Caffe's parse_log.py can't read it
}

// For an unknown flag or a bad value gflags prints a line and calls exit(1), which is our word for a fault of our own.
bool ParseFlags(const ToolUsage& usage, int* argc, char*** argv) {
  static bool parsing = true;
  std::atexit([] {
    if (parsing) _exit(kWrongInput);
  });
  gflags::SetUsageMessage(usage.text);
  gflags::SetVersionString(Version());
  std::vector<std::string> dropped;
  if (usage.word != nullptr) dropped = DropFlagsOfCaffe(argc, *argv);
  gflags::ParseCommandLineNonHelpFlags(argc, argv, true);
  parsing = false;
  if (!FLAGS_log_dir.empty() && !IsGiven("logtostderr")) {
    FLAGS_logtostderr = false;
    FLAGS_alsologtostderr = true;
  }
  for (const std::string& flag : dropped) {
    LOG(WARNING) << "--" << flag << " has no effect in " << usage.name << ", as in caffe " << usage.word;
  }
  if (FLAGS_help || FLAGS_helpshort) {
    PrintHelp(usage);
    return true;
  }
  gflags::HandleCommandLineHelpFlags();
  return false;
}

Status CheckMaxBadRecords(int64_t records) {
  if (records >= 0) return OkStatus();
  return InvalidArgument("--max_bad_records is %lld; expected at least 0", static_cast<long long>(records));
}

Status CheckThreads(const char* flag, int threads, int least) {
  if (threads >= least && threads <= kMaxThreads) return OkStatus();
  return InvalidArgument("--%s is %d; expected %d to %d", flag, threads, least, kMaxThreads);
}

int ToolMain(int argc, char** argv, const ToolUsage& usage,
             const std::function<Status(const std::vector<std::string>&)>& body) {
  OpenStandardStreams();
  EndWhenSignalled();
  ExitWhenOutOfMemory();
  signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` is an error as on a full disk
  LogAsCaffe();
  google::InitGoogleLogging(usage.name);
  if (ParseFlags(usage, &argc, &argv)) return 0;
  const bool skipped = usage.word != nullptr && argc > 1 && std::string_view(argv[1]) == usage.word;
  const std::vector<std::string> arguments(argv + (skipped ? 2 : 1), argv + argc);
  if (arguments.size() < usage.min_arguments || arguments.size() > usage.max_arguments) {
    std::cerr << usage.name << ": " << arguments.size() << " arguments, expected " << usage.min_arguments;
    if (usage.max_arguments != usage.min_arguments) std::cerr << " to " << usage.max_arguments;
    std::cerr << "\n" << usage.text << "\n";
    return kWrongInput;
  }
  Status status = OrOutOfMemory("", [&] { return body(arguments); });
  // A script would take what is missing for the answer.
  if (status.ok() && !std::cout.flush()) status = ResourceExhausted("stdout can't be written");
  if (!status.ok()) std::cerr << usage.name << ": " << status.message() << std::endl;
  return ExitStatus(status);
}

}  // namespace hp
