#include "tools/cluster/launcher.h"

#include "base/format.h"
#include "checkpoint/snapshot_lines.h"

#include "glog/logging.h"
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr int kTicksPerSecond = 2;
// Nodes that lose one end by themselves within 3 s, and say so; those that still wait for it at start do not.
constexpr int kGraceTicks = 5 * kTicksPerSecond;
// A stop takes as long as a snapshot, and --stop_within_s of hpnode bounds it.
constexpr int kStopGraceTicks = 60 * kTicksPerSecond;
constexpr int kFirstSignalExit = 128;

/// What a node's exit status says, in the words of Status.
StatusCode CodeOfExit(int exit) {
  switch (exit) {
    case 0:
      return StatusCode::kOk;
    case 2:
      return StatusCode::kInvalidArgument;
    case 3:
      return StatusCode::kNumeric;
    case 4:
      return StatusCode::kUnavailable;
    case 5:
      return StatusCode::kStopped;
    default:
      return exit > kFirstSignalExit ? StatusCode::kUnavailable : StatusCode::kInternal;
  }
}

std::string WordsOfExit(int exit) {
  if (exit <= kFirstSignalExit) return Format("exit status %d", exit);
  const char* const name = sigabbrev_np(exit - kFirstSignalExit);
  return Format("killed by signal %d%s%s", exit - kFirstSignalExit, name == nullptr ? "" : ", SIG",
                name == nullptr ? "" : name);
}

}  // namespace

Launcher::Launcher(LaunchOptions options) : options_(std::move(options)), first_resume_(options_.resume) {}
Launcher::~Launcher() = default;

Status Launcher::Run() {
  HP_ASSIGN_OR_RETURN(folder_, RunFolder::Open(options_.folder));
  folder_->RecordStart(LaunchVersion());
  AgentSetOptions agents = options_.agents;
  agents.hello.set_version(LaunchVersion());
  agents.hello.add_folder(options_.folder + "/snapshots");
  agents.hello.set_working_folder(options_.working_folder);
  AgentSet::Callbacks callbacks;
  callbacks.on_output = [this](int id, const std::string& line) { OnOutput(id, line); };
  callbacks.on_exit = [this](int id, const ProcessExit& exit) { OnExit(id, exit); };
  callbacks.on_lost = [this](const std::string& host, const Status& why) { OnLost(host, why); };
  callbacks.on_signal = [this](int signal) { OnSignal(signal); };
  agents_ = std::make_unique<AgentSet>(std::move(agents), std::move(callbacks));
  agents_->OnTick([this] { OnTick(); });
  for (const std::string& host : options_.excluded) ReplaceHost(host);
  Status status;
  for (int restarts = 0;; ++restarts) {
    status = restarts == 0 ? OkStatus() : PrepareRestart();
    if (status.ok()) status = RunOnce();
    folder_->Record(status.ok() ? "done" : status.message());
    if (ExitStatus(status) != 4 || restarts == options_.max_restarts || stop_asked_) break;
    LOG(WARNING) << "restart " << restarts + 1 << " of " << options_.max_restarts << ", since " << status.message();
  }
  return status;
}

Status Launcher::RunOnce() {
  incarnation_ = folder_->BeginIncarnation();
  failure_ = OkStatus();
  first_failed_ = -1;
  ticks_since_failure_ = 0;
  HP_RETURN_IF_ERROR(Prepare());
  StartNodes();
  Status status = Watch();
  started_ = false;
  return status;
}

// Every node reports its end, or its host is lost.
Status Launcher::Watch() {
  HP_RETURN_IF_ERROR(agents_->Await([this] { return !AnyRuns(); }, false));
  if (failure_.ok()) {
    LOG(INFO) << "all " << nodes_.size() << " nodes have ended";
    return OkStatus();
  }
  TellFailure();
  return failure_;
}

bool Launcher::AnyRuns() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.running; });
}

void Launcher::Fail(int node, Status why) {
  if (!failure_.ok()) return;
  failure_ = std::move(why);
  first_failed_ = node;
  ++failures_of_host_[nodes_[node].host];  // those that end because of this one are no failures of their hosts
}

void Launcher::OnOutput(int id, const std::string& line) {
  const auto node = node_of_id_.find(id);
  if (node == node_of_id_.end()) return;
  output_.Add(node->second, line);
  if (std::optional<std::string> manifest = ManifestOfLine(line)) snapshots_.push_back(*std::move(manifest));
}

void Launcher::OnExit(int id, const ProcessExit& exit) {
  const auto found = node_of_id_.find(id);
  if (found == node_of_id_.end()) return;  // of an earlier incarnation: a lost host that is back
  const int index = found->second;
  Node& node = nodes_[index];
  node.running = false;
  node.exit = exit.status();
  if (exit.status() == 0) return;
  const std::string words = exit.has_error() ? Printable(exit.error()) : WordsOfExit(exit.status());
  folder_->Record(Format("node \"%s\" on host %s: %s", node.name.c_str(), node.host.c_str(), words.c_str()));
  Fail(index, Status(CodeOfExit(exit.status()),
                     Format("node \"%s\" on host %s: %s", node.name.c_str(), node.host.c_str(), words.c_str())));
}

void Launcher::OnLost(const std::string& host, const Status& why) {
  if (!started_) return;  // whoever waits for the host says so
  int first = -1;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].host != host || !nodes_[i].running) continue;
    if (first < 0) first = static_cast<int>(i);
    nodes_[i].running = false;
    nodes_[i].lost = true;
  }
  if (first < 0) return;
  folder_->Record(why.message());
  Fail(first, Unavailable("%s", why.message().c_str()));
}

void Launcher::OnSignal(int signal) {
  if (signal == SIGTSTP) {
    LOG(WARNING) << "goes on in spite of Ctrl-Z: hosts end their nodes when they hear nothing of hplaunch for 8 s. "
                 << "Start it under nohup, tmux or screen to leave this terminal";
    return;
  }
  if (signal != SIGHUP) stop_asked_ = true;
  if (started_) return SignalAll(signal);
  if (signal == SIGHUP) return;
  agents_->Interrupt(Stopped("stopped by SIG%s before training began", sigabbrev_np(signal)));
}

void Launcher::SignalAll(int signal) {
  for (const Node& node : nodes_) {
    if (node.running) agents_->Signal(node.host, node.id, signal);
  }
}

// Ends what a failure has left.
void Launcher::OnTick() {
  if (failure_.ok() || !started_) return;
  const bool stopped = failure_.code() == StatusCode::kStopped;
  if (++ticks_since_failure_ % (stopped ? kStopGraceTicks : kGraceTicks) == 0) SignalAll(SIGKILL);
}

void Launcher::TellFailure() const {
  if (failure_.code() == StatusCode::kStopped || first_failed_ < 0) return;
  std::string text = "first failure: " + failure_.message() + "; its last lines:";
  for (const std::string& line : output_.LastLines(first_failed_)) text += "\n  " + line;
  LOG(ERROR) << text;
}

}  // namespace hp
