#include "tools/cluster/host_link.h"

#include "base/format.h"
#include "base/hash.h"
#include "tools/cluster/child_process.h"

#include "glog/logging.h"
#include <signal.h>
#include <sys/wait.h>

#include <cinttypes>
#include <utility>

namespace hp {
namespace {

constexpr int kSshFailed = 255;    // ssh itself, as opposed to what it runs
constexpr int kBundleFailed = 73;  // of the script below
constexpr size_t kPieceOfBundle = 1 << 20;

/// Takes a bundle from its input where it is not in the cache yet, and becomes the agent. `head` reads as many bytes as
/// it is told and no more: what follows is the agent's.
constexpr char kUnpack[] =
    "d=\"$HOME/.cache/hpnode/bundles/%016" PRIx64
    "\"; "
    "if [ -e \"$d/complete\" ]; then echo have; else echo want; t=\"$d.$$\"; "
    "mkdir -p \"$t\" && head -c %zu > \"$t/bundle.tar.gz\" && tar -xzf \"$t/bundle.tar.gz\" -C \"$t\" && "
    "rm \"$t/bundle.tar.gz\" && touch \"$t/complete\" || { rm -rf \"$t\"; exit %d; }; "
    "mv -T \"$t\" \"$d\" 2>/dev/null || rm -rf \"$t\"; fi; "
    "for p in \"$d\"/bin/hplaunch \"$d\"/*/bin/hplaunch; do [ -x \"$p\" ] && exec \"$p\" --agent; done; "
    "echo \"the bundle has no bin/hplaunch\" >&2; exit %d";

/// As one word for a shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char byte : text) quoted += byte == '\'' ? std::string("'\\''") : std::string(1, byte);
  return quoted + "'";
}

}  // namespace

AgentCommand CommandOfAgent(const std::vector<std::string>& ssh, const std::string& host, const std::string& program,
                            const std::string& bundle) {
  AgentCommand command;
  if (ssh.empty()) {
    command.words = {program, "--agent"};
    return command;
  }
  command.words = ssh;
  // Its standard input is the agent's: nobody can answer questions there.
  for (const char* option : {"-T", "-oBatchMode=yes", "-oConnectTimeout=10"}) command.words.emplace_back(option);
  command.words.push_back(host);
  if (bundle.empty()) {
    command.words.push_back("exec " + Quoted(program) + " --agent");
    return command;
  }
  const std::string script = Format(kUnpack, HashBytes(bundle), bundle.size(), kBundleFailed, kBundleFailed);
  command.words.push_back("exec sh -c " + Quoted(script));
  command.bundle = bundle;
  return command;
}

HostLink::HostLink(EventLoop* loop, std::string host, Callbacks callbacks)
    : loop_(loop), host_(std::move(host)), callbacks_(std::move(callbacks)) {}

HostLink::~HostLink() {
  if (pid_ < 0 || exit_ >= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Status HostLink::Open(const AgentCommand& command) {
  ChildOptions options;
  options.command = command.words;
  options.with_input = true;
  HP_ASSIGN_OR_RETURN(const ChildProcess child, StartChild(options));
  by_ssh_ = command.words.back() != "--agent";
  bundle_ = command.bundle;
  asks_for_bundle_ = !bundle_.empty();
  pid_ = child.pid;
  input_ = loop_->Write(child.input);
  open_pipes_ = 2;
  loop_->Read(
      child.output, [this](std::string_view bytes) { OnBytes(bytes); }, [this] { --open_pipes_, EndIfOver(); });
  const auto on_line = [this](const std::string& line) {
    last_error_ = line;
    callbacks_.on_error_line(line);
  };
  loop_->Read(
      child.error, [this, on_line](std::string_view bytes) { errors_.Add(bytes, on_line); },
      [this, on_line] {
        errors_.Finish(on_line);
        --open_pipes_;
        EndIfOver();
      });
  return OkStatus();
}

void HostLink::Send(const LaunchMessage& message) {
  if (ended_) return;
  if (asks_for_bundle_)
    held_ += EncodeFrame(message);
  else
    input_->Send(EncodeFrame(message));
}

void HostLink::Close() {
  if (input_ != nullptr) input_->Close();
}

void HostLink::OnBytes(std::string_view bytes) {
  silent_ticks_ = 0;
  if (!broken_.ok()) return;
  while (asks_for_bundle_ && !bytes.empty()) {
    const char byte = bytes.front();
    bytes.remove_prefix(1);
    if (byte == '\n')
      OnFirstLine();
    else
      first_line_ += byte;
  }
  broken_ = frames_.Add(bytes, [this](const LaunchMessage& message) {
    greeted_ = true;
    callbacks_.on_message(message);
  });
  if (!broken_.ok() && exit_ < 0) kill(pid_, SIGKILL);
}

void HostLink::OnFirstLine() {
  asks_for_bundle_ = false;
  if (first_line_ == "want") {
    LOG(INFO) << "host " << host_ << " gets the bundle, " << MegaBytes(bundle_.size());
    for (size_t begin = 0; begin < bundle_.size(); begin += kPieceOfBundle) {
      input_->Send(bundle_.substr(begin, kPieceOfBundle));
    }
  }
  bundle_.clear();
  input_->Send(std::exchange(held_, ""));
}

void HostLink::Tick() {
  if (!greeted_ && waiting() < waiting_before_)
    silent_ticks_ = 0;
  else
    ++silent_ticks_;
  waiting_before_ = waiting();
}

void HostLink::Reap() {
  int status = 0;
  if (pid_ < 0 || exit_ >= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return;
  exit_ = ExitOf(status);
  EndIfOver();
}

void HostLink::EndIfOver() {
  if (ended_ || open_pipes_ > 0 || exit_ < 0) return;
  ended_ = true;
  input_ = nullptr;
  callbacks_.on_end(WhyEnded());
}

Status HostLink::WhyEnded() const {
  const std::string said = last_error_.empty() ? Format("exit status %d", exit_) : Printable(last_error_, 300);
  if (!broken_.ok()) {
    return InvalidArgument("host %s: %s; does its shell print something at login?", host_.c_str(),
                           broken_.message().c_str());
  }
  if (greeted_) return Unavailable("host %s: its agent is gone: %s", host_.c_str(), said.c_str());
  if (by_ssh_ && exit_ == kSshFailed) {
    if (said.find("Host key verification failed") != std::string::npos ||
        said.find("host key is known") != std::string::npos) {
      return FailedPrecondition("host %s: ssh does not know its key (%s); log in once by hand: ssh %s", host_.c_str(),
                                said.c_str(), host_.c_str());
    }
    if (said.find("Permission denied") != std::string::npos) {
      return FailedPrecondition("host %s: %s; hplaunch needs a key that asks for no password: ssh-copy-id %s",
                                host_.c_str(), said.c_str(), host_.c_str());
    }
    return Unavailable("host %s: cannot be reached: %s; try \"ssh %s true\", or leave it out (--exclude=%s)",
                       host_.c_str(), said.c_str(), host_.c_str(), host_.c_str());
  }
  if (by_ssh_ && exit_ == kBundleFailed) {
    return FailedPrecondition(
        "host %s: the bundle was not unpacked: %s; make room in ~/.cache/hpnode there, or install the programs and "
        "name their folder with --remote_bin",
        host_.c_str(), said.c_str());
  }
  if (exit_ == 126 || exit_ == 127) {
    return NotFound(
        "host %s: no hplaunch there: %s; install it in the same place, name its folder with --remote_bin, "
        "or copy it with --bundle",
        host_.c_str(), said.c_str());
  }
  return InvalidArgument("host %s: no agent: %s", host_.c_str(), said.c_str());
}

}  // namespace hp
