#include "tools/cluster/agent.h"

#include "base/folder.h"
#include "base/format.h"
#include "checkpoint/summed_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace hp {
namespace {

constexpr std::chrono::milliseconds kAgentTick{500};
// hplaunch gives a silent host 10 s before it starts the job elsewhere: then nothing of it runs here.
constexpr int kTicksToGiveUp = 16;
constexpr size_t kMostWaiting = 4 << 20;  // bytes of output that hplaunch has not taken

/// A file in memory that its owner alone may read. @return a descriptor; -1: none is left.
int MemoryFile(const std::string& bytes) {
  const int fd = memfd_create("hpnode token", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (fchmod(fd, 0600) == 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) return fd;
  close(fd);
  return -1;
}

/// An error of this host's files, and what helps against it there.
Status WithAdvice(const Status& error) {
  if (error.code() != StatusCode::kResourceExhausted) return error;
  return Status(error.code(), error.message() + "; make room on that disk");
}

}  // namespace

Agent::Agent(int input, int output, std::string program_folder)
    : program_folder_(std::move(program_folder)), output_(loop_.Write(output)) {
  signal(SIGPIPE, SIG_IGN);
  loop_.OnSignals({SIGCHLD, SIGINT, SIGTERM, SIGHUP}, [this](int number) {
    if (number == SIGCHLD) return Reap();
    input_ended_ = true;
  });
  loop_.Read(
      input, [this](std::string_view bytes) { OnBytes(bytes); }, [this] { input_ended_ = true; });
  loop_.Every(kAgentTick, [this] { OnTick(); });
}

Status Agent::Run() {
  while (!input_ended_ && status_.ok()) loop_.RunOnce();
  EndProcesses();
  return status_;
}

void Agent::OnBytes(std::string_view bytes) {
  silent_ticks_ = 0;
  const Status read = frames_.Add(bytes, [this](const LaunchMessage& message) { OnMessage(message); });
  if (!read.ok() && status_.ok()) status_ = read;
}

// Silence is counted in ticks: it does not count while this process itself did not run.
void Agent::OnTick() {
  LaunchMessage beat;
  beat.mutable_beat();
  Send(beat);
  if (++silent_ticks_ >= kTicksToGiveUp && has_started_) {
    status_ =
        Unavailable("nothing heard from hplaunch for 8 s: it is suspended, or the network is cut; ended its nodes");
  }
}

void Agent::OnMessage(const LaunchMessage& message) {
  switch (message.what_case()) {
    case LaunchMessage::kHello:
      return OnHello(message.hello());
    case LaunchMessage::kPorts:
      return OnPorts(message.ports().count());
    case LaunchMessage::kPut:
      return OnPut(message.put());
    case LaunchMessage::kChunk:
      return OnChunk(message.chunk());
    case LaunchMessage::kMove:
      return OnMove(message.move());
    case LaunchMessage::kStart:
      return Start(message.start());
    case LaunchMessage::kSignal: {
      const auto found = processes_.find(message.signal().id());
      // A number of a process that is dead may be another's by now; it is ours until Reap has seen it.
      if (found != processes_.end() && !found->second.exit) kill(found->second.pid, message.signal().signal());
      return;
    }
    default:
      return;  // a beat
  }
}

void Agent::OnHello(const LaunchHello& hello) {
  for (const std::string& folder : hello.folder()) {
    const Status made = hello.version() == LaunchVersion() ? MakeFolder(folder) : OkStatus();
    if (made.ok()) continue;
    const std::string text = WithAdvice(made).message() + "; --run_dir names another folder for all hosts";
    Answer(folder, FileAnswer::FAILED, Status(made.code(), text));
  }
  std::error_code error;
  working_folder_ = std::filesystem::is_directory(hello.working_folder(), error) || hello.folder_size() == 0
                        ? hello.working_folder()
                        : hello.folder(0);
  LaunchMessage reply;
  reply.mutable_hello()->set_version(LaunchVersion());
  if (const auto sum = SumFile(program_folder_ + "/hpnode"); sum.ok()) reply.mutable_hello()->set_program(sum->xxh64);
  Send(reply);
}

void Agent::OnPorts(int count) {
  const StatusOr<std::vector<int>> ports = ports_.Take(count);
  if (!ports.ok()) return Answer("ports", FileAnswer::FAILED, ports.status());
  LaunchMessage reply;
  for (const int port : *ports) reply.mutable_ports()->add_port(port);
  Send(reply);
}

void Agent::Answer(const std::string& path, FileAnswer::Answer answer, const Status& error) {
  LaunchMessage reply;
  reply.mutable_file()->set_path(path);
  reply.mutable_file()->set_answer(answer);
  if (!error.ok()) reply.mutable_file()->set_error(error.message());
  Send(reply);
}

void Agent::OnPut(const FilePut& put) {
  receiving_ = put.path();
  const StatusOr<bool> wanted = receiver_.Begin(put);
  if (!wanted.ok()) return Answer(receiving_, FileAnswer::FAILED, WithAdvice(wanted.status()));
  Answer(receiving_, *wanted ? FileAnswer::WANTED : FileAnswer::THERE);
}

void Agent::OnChunk(const FileChunk& chunk) {
  if (receiving_.empty()) return;  // the rest of a file that could not be written
  const StatusOr<bool> complete = receiver_.Add(chunk);
  if (complete.ok() && !*complete) return;
  Answer(receiving_, complete.ok() ? FileAnswer::THERE : FileAnswer::FAILED, WithAdvice(complete.status()));
  receiving_.clear();
}

void Agent::OnMove(const FolderMove& move) {
  std::error_code error;
  if (!move.has_from()) {
    const bool there = std::filesystem::exists(std::filesystem::symlink_status(move.to(), error));
    return Answer(move.to(), there ? FileAnswer::THERE : FileAnswer::WANTED);
  }
  if (!move.has_to()) {
    if (std::filesystem::remove(move.from(), error) || !error) return Answer(move.from(), FileAnswer::WANTED);
    return Answer(move.from(), FileAnswer::FAILED,
                  InvalidArgument("%s: %s", move.from().c_str(), error.message().c_str()));
  }
  if (renameat2(AT_FDCWD, move.from().c_str(), AT_FDCWD, move.to().c_str(), RENAME_NOREPLACE) == 0) {
    return Answer(move.to(), FileAnswer::THERE);
  }
  Answer(move.to(), FileAnswer::FAILED, InvalidArgument("%s: %s", move.to().c_str(), std::strerror(errno)));
}

void Agent::Start(const ProcessStart& start) {
  const int id = start.id();
  ChildOptions options;
  options.command = {program_folder_ + "/" + start.program()};
  options.command.insert(options.command.end(), start.argument().begin(), start.argument().end());
  options.folder = working_folder_;
  options.one_output = true;
  Status failed;
  if (start.has_token() && (options.kept_fd = MemoryFile(start.token())) < 0) {
    failed = ResourceExhausted("no memory for the token");
  }
  const StatusOr<ChildProcess> child = failed.ok() ? StartChild(options) : StatusOr<ChildProcess>(failed);
  if (options.kept_fd >= 0) close(options.kept_fd);
  if (!child.ok()) {
    LaunchMessage reply;
    reply.mutable_exit()->set_id(id);
    reply.mutable_exit()->set_status(ExitStatus(child.status()));
    reply.mutable_exit()->set_error(child.status().message());
    return Send(reply);
  }
  processes_[id].pid = child->pid;
  has_started_ = true;
  loop_.Read(
      child->output,
      [this, id](std::string_view bytes) {
        processes_[id].lines.Add(bytes, [this, id](const std::string& line) { OnLine(id, line); });
      },
      [this, id] {
        processes_[id].lines.Finish([this, id](const std::string& line) { OnLine(id, line); });
        processes_[id].output_ended = true;
        ReportExit(id);
      });
}

// A connection that is slower than the log holds up no training: lines are left out, and counted.
void Agent::OnLine(int id, const std::string& line) {
  Process& process = processes_[id];
  if (output_->waiting() > kMostWaiting) {
    ++process.dropped;
    return;
  }
  LaunchMessage message;
  message.mutable_output()->set_id(id);
  if (process.dropped > 0) {
    message.mutable_output()->set_line(Format("(%lld lines are left out)", static_cast<long long>(process.dropped)));
    process.dropped = 0;
    Send(message);
  }
  message.mutable_output()->set_line(line);
  Send(message);
}

void Agent::Reap() {
  for (auto& [id, process] : processes_) {
    int status = 0;
    if (!process.exit && waitpid(process.pid, &status, WNOHANG) == process.pid) process.exit = ExitOf(status);
  }
  for (auto next = processes_.begin(); next != processes_.end();) ReportExit((next++)->first);
}

void Agent::ReportExit(int id) {
  const Process& process = processes_[id];
  if (!process.exit || !process.output_ended) return;
  LaunchMessage message;
  message.mutable_exit()->set_id(id);
  message.mutable_exit()->set_status(*process.exit);
  processes_.erase(id);
  Send(message);
}

void Agent::EndProcesses() {
  for (auto& [id, process] : processes_) {
    if (!process.exit) kill(process.pid, SIGKILL);
  }
  for (auto& [id, process] : processes_) {
    if (!process.exit) waitpid(process.pid, nullptr, 0);
  }
}

}  // namespace hp
