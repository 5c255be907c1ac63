#include "tools/cluster/agent_set.h"

#include "base/format.h"
#include "base/host.h"
#include "base/thread.h"

#include "glog/logging.h"
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <utility>

namespace hp {
namespace {

constexpr std::chrono::milliseconds kTick{500};
constexpr int kSilentTicks = 21;  // 10 s and more: its agent has ended its processes by then
// An agent says nothing before it runs, nor while it reads or syncs a large file: 5 minutes.
constexpr int kSilentStartTicks = 600;
constexpr int kTicksToTell = 30;  // 15 s
constexpr size_t kMostWaitingOfFiles = 4 << 20;
constexpr uintmax_t kQuicklySummed = 64 << 20;  // bytes

std::string MovedPath(const std::string& path, const std::string& from, const std::string& to) {
  return path.starts_with(from) ? to + path.substr(from.size()) : path;
}

}  // namespace

AgentSet::AgentSet(AgentSetOptions options, Callbacks callbacks)
    : options_(std::move(options)), callbacks_(std::move(callbacks)) {
  signal(SIGPIPE, SIG_IGN);
  std::vector<int> signals = {SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGTSTP};
  struct sigaction before = {};
  // nohup: a terminal that closes shall not matter.
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) signals.push_back(SIGHUP);
  loop_.OnSignals(signals, [this](int number) {
    if (number != SIGCHLD) return callbacks_.on_signal(number);
    for (auto& [name, host] : hosts_) host->link->Reap();
    for (auto& host : old_) host->link->Reap();
  });
  loop_.Every(kTick, [this] { Tick(); });
}

void AgentSet::Tick() {
  LaunchMessage beat;
  beat.mutable_beat();
  for (auto& [name, host] : hosts_) {
    host->link->Tick();
    if (host->link->ended()) continue;
    if (host->ready) host->link->Send(beat);
    const int ticks = host->link->silent_ticks();
    if (all_needed_ && ticks > 0 && ticks % kTicksToTell == 0) {
      LOG(INFO) << "waiting for host " << name << ", of which nothing was heard for " << ticks / 2 << " s";
    }
    if (host->lost || ticks < (all_needed_ ? kSilentStartTicks : kSilentTicks)) continue;
    const Status silent = Unavailable("host %s: nothing heard from its agent for %d s", name.c_str(), ticks / 2);
    host->lost = true;
    if (host->fault.ok()) host->fault = silent;
    callbacks_.on_lost(name, silent);
    host->link->Close();
  }
  if (on_tick_) on_tick_();
}

void AgentSet::OpenLink(Host* host) {
  const bool local = IsThisHost(host->name);
  HostLink::Callbacks callbacks;
  callbacks.on_message = [this, host](const LaunchMessage& message) { OnMessage(host, message); };
  callbacks.on_error_line = [host](const std::string& line) {
    LOG(WARNING) << "[" << host->name << " agent] " << Printable(line);
  };
  callbacks.on_end = [this, host](const Status& why) {
    if (host->fault.ok()) host->fault = why;
    if (!std::exchange(host->lost, true)) callbacks_.on_lost(host->name, why);
  };
  host->link = std::make_unique<HostLink>(&loop_, host->name, std::move(callbacks));
  const Status opened = host->link->Open(CommandOfAgent(local ? std::vector<std::string>() : options_.ssh, host->name,
                                                        local ? options_.local_program : options_.remote_program,
                                                        local ? "" : options_.bundle));
  if (!opened.ok()) {
    host->fault = opened;
    host->lost = true;
    return;
  }
  LaunchMessage hello;
  *hello.mutable_hello() = options_.hello;
  host->link->Send(hello);
}

void AgentSet::Open(const std::string& name, bool needed) {
  if (IsConnected(name)) return;
  Disconnect(name);
  auto host = std::make_unique<Host>();
  host->name = name;
  host->needed = needed;
  Host* const added = (hosts_[name] = std::move(host)).get();
  OpenLink(added);
}

Status AgentSet::Connect(const std::vector<std::string>& hosts) {
  for (const std::string& name : hosts) Open(name, true);
  return AwaitHosts(hosts, [](const Host& host) { return host.ready; });
}

StatusOr<std::map<std::string, Status>> AgentSet::TryConnect(const std::vector<std::string>& hosts) {
  for (const std::string& name : hosts) Open(name, false);
  HP_RETURN_IF_ERROR(AwaitHosts(hosts, [](const Host& host) { return host.ready || host.lost; }));
  std::map<std::string, Status> results;
  for (const std::string& name : hosts) {
    Find(name)->needed = true;
    results[name] = Find(name)->fault;
  }
  for (const auto& [name, result] : results) {
    if (!result.ok()) Disconnect(name);
  }
  return results;
}

void AgentSet::Disconnect(const std::string& name) {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return;
  found->second->link->Close();
  found->second->lost = true;
  old_.push_back(std::move(found->second));
  hosts_.erase(found);
}

bool AgentSet::IsConnected(const std::string& name) const {
  const auto found = hosts_.find(name);
  return found != hosts_.end() && found->second->ready && !found->second->lost;
}

bool AgentSet::IsLost(const std::string& name) const {
  const auto found = hosts_.find(name);
  return found != hosts_.end() && found->second->lost;
}

Status AgentSet::AwaitSilence(const std::string& name) {
  if (hosts_.count(name) == 0) return OkStatus();
  return Await([host = Find(name)] { return host->link->silent_ticks() >= kSilentTicks; }, false);
}

Status AgentSet::Await(const std::function<bool()>& done, bool all_needed) {
  all_needed_ = all_needed;
  while (interrupted_.ok() && !done()) {
    if (all_needed) HP_RETURN_IF_ERROR(FirstFault());
    loop_.RunOnce();
    for (auto& [name, host] : hosts_) SendMore(host.get());
  }
  return interrupted_;
}

Status AgentSet::FirstFault() const {
  for (const auto& [name, host] : hosts_) {
    if (host->needed && !host->fault.ok()) return host->fault;
  }
  return OkStatus();
}

Status AgentSet::AwaitHosts(const std::vector<std::string>& hosts, const std::function<bool(const Host&)>& done) {
  const auto all_done = [&] {
    for (const std::string& name : hosts) {
      if (!done(*Find(name))) return false;
    }
    return true;
  };
  HP_RETURN_IF_ERROR(Await(all_done, true));
  return FirstFault();
}

void AgentSet::OnMessage(Host* host, const LaunchMessage& message) {
  switch (message.what_case()) {
    case LaunchMessage::kHello:
      return OnHello(host, message.hello());
    case LaunchMessage::kFile:
      return OnFile(host, message.file());
    case LaunchMessage::kPorts:
      host->ports.assign(message.ports().port().begin(), message.ports().port().end());
      return;
    case LaunchMessage::kOutput: {
      const auto asked = asked_.find(message.output().id());
      if (asked != asked_.end())
        asked->second.lines.push_back(message.output().line());
      else
        callbacks_.on_output(message.output().id(), message.output().line());
      return;
    }
    case LaunchMessage::kExit: {
      const auto asked = asked_.find(message.exit().id());
      if (asked == asked_.end()) return callbacks_.on_exit(message.exit().id(), message.exit());
      if (message.exit().has_error()) asked->second.lines.push_back(message.exit().error());
      asked->second.status = message.exit().status();
      return;
    }
    default:
      return;  // a beat
  }
}

void AgentSet::OnHello(Host* host, const LaunchHello& hello) {
  programs_[host->name] = hello.program();
  host->ready = true;
  if (hello.version() == LaunchVersion()) {
    if (!hello.has_program()) host->fault = NotFound("host %s: no hpnode beside its hplaunch", host->name.c_str());
    return;
  }
  host->fault = FailedPrecondition(
      "host %s has \"%s\", this host \"%s\": install the same version on both, or copy it "
      "with --bundle",
      host->name.c_str(), Printable(hello.version(), 100).c_str(), LaunchVersion().c_str());
}

void AgentSet::OnFile(Host* host, const FileAnswer& answer) {
  if (answer.answer() == FileAnswer::FAILED) {
    host->fault = FailedPrecondition("host %s: %s", host->name.c_str(), Printable(answer.error()).c_str());
    host->files.clear();
    host->sender = nullptr;
    return;
  }
  if (host->files.empty()) {
    host->answered = true;
    host->there = answer.answer() == FileAnswer::THERE;
    return;
  }
  if (answer.answer() == FileAnswer::THERE) {
    host->files.pop_front();
    return Announce(host);
  }
  ++sent_files_;
  StatusOr<std::unique_ptr<FileSender>> sender = FileSender::Open(host->files.front().from);
  if (!sender.ok())
    host->fault = sender.status();
  else
    host->sender = *std::move(sender);
}

void AgentSet::Announce(Host* host) {
  if (host->files.empty()) return;
  LaunchMessage message;
  *message.mutable_put() = host->files.front().put;
  host->link->Send(message);
}

void AgentSet::SendMore(Host* host) {
  while (host->sender != nullptr && host->link->waiting() < kMostWaitingOfFiles) {
    const StatusOr<FileChunk> chunk = host->sender->Next();
    if (!chunk.ok()) {
      host->fault = chunk.status();
      host->sender = nullptr;
      return;
    }
    LaunchMessage message;
    *message.mutable_chunk() = *chunk;
    host->link->Send(message);
    if (chunk->last()) host->sender = nullptr;
  }
}

StatusOr<std::vector<int>> AgentSet::TakePorts(const std::string& name, int count) {
  Host* const host = Find(name);
  host->ports.clear();
  LaunchMessage message;
  message.mutable_ports()->set_count(count);
  host->link->Send(message);
  HP_RETURN_IF_ERROR(AwaitHosts({name}, [](const Host& each) { return !each.ports.empty(); }));
  if (static_cast<int>(host->ports.size()) == count) return host->ports;
  return InternalError("host %s: %zu ports instead of %d", name.c_str(), host->ports.size(), count);
}

// Sums of a large database take longer than agents wait for a beat: then another thread makes them.
StatusOr<std::vector<FilePut>> AgentSet::Describe(const std::vector<std::string>& paths) {
  std::vector<FilePut> puts;
  std::atomic<bool> stop = false;
  const auto describe = [&]() -> Status {
    for (const std::string& path : paths) {
      if (stop) break;
      HP_ASSIGN_OR_RETURN(FilePut put, DescribeFile(path));
      puts.push_back(std::move(put));
    }
    return OkStatus();
  };
  uintmax_t bytes = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (!error) bytes += size;
  }
  if (bytes < kQuicklySummed) {
    HP_RETURN_IF_ERROR(describe());
    return puts;
  }
  Status status;
  std::atomic<bool> done = false;
  Thread thread("sums", [&] {
    status = describe();
    done = true;
  });
  const Status waited = Await([&] { return done.load(); }, true);
  stop = true;
  thread.Join();
  HP_RETURN_IF_ERROR(waited);
  HP_RETURN_IF_ERROR(status);
  return puts;
}

Status AgentSet::PutFiles(const std::vector<std::string>& hosts, const std::vector<std::string>& paths,
                          const std::string& from, const std::string& to) {
  HP_ASSIGN_OR_RETURN(std::vector<FilePut> puts, Describe(paths));
  std::deque<Pending> files;
  for (size_t i = 0; i < paths.size(); ++i) {
    puts[i].set_path(MovedPath(paths[i], from, to));
    files.push_back({paths[i], std::move(puts[i])});
  }
  for (const std::string& name : hosts) {
    Find(name)->files = files;
    Announce(Find(name));
  }
  return AwaitHosts(hosts, [](const Host& host) { return host.files.empty(); });
}

Status AgentSet::MoveFolder(const std::string& name, const std::string& from, const std::string& to) {
  FolderMove move;
  move.set_from(from);
  move.set_to(to);
  return Ask(Find(name), move);
}

StatusOr<bool> AgentSet::Has(const std::string& name, const std::string& path) {
  FolderMove move;
  move.set_to(path);
  HP_RETURN_IF_ERROR(Ask(Find(name), move));
  return Find(name)->there;
}

Status AgentSet::Remove(const std::string& name, const std::string& path) {
  FolderMove move;
  move.set_from(path);
  return Ask(Find(name), move);
}

Status AgentSet::Ask(Host* host, const FolderMove& move) {
  host->answered = false;
  LaunchMessage message;
  *message.mutable_move() = move;
  host->link->Send(message);
  return AwaitHosts({host->name}, [](const Host& each) { return each.answered; });
}

StatusOr<std::map<std::string, Answered>> AgentSet::Ask(
    const std::string& program, const std::map<std::string, std::vector<std::string>>& arguments) {
  std::map<std::string, int> ids;
  for (const auto& [name, words] : arguments) {
    const int id = ids[name] = next_id_;
    asked_[id] = {};
    Start(name, program, words, "");
  }
  const auto all_ended = [&] {
    for (const auto& [name, id] : ids) {
      if (asked_[id].status < 0) return false;
    }
    return true;
  };
  HP_RETURN_IF_ERROR(Await(all_ended, true));
  std::map<std::string, Answered> answers;
  for (const auto& [name, id] : ids) answers[name] = std::move(asked_[id]);
  return answers;
}

int AgentSet::Start(const std::string& name, const std::string& program, const std::vector<std::string>& arguments,
                    const std::string& token) {
  LaunchMessage message;
  ProcessStart* const start = message.mutable_start();
  start->set_id(next_id_);
  start->set_program(program);
  for (const std::string& argument : arguments) start->add_argument(argument);
  if (!token.empty()) start->set_token(token);
  Find(name)->link->Send(message);
  return next_id_++;
}

void AgentSet::Signal(const std::string& name, int id, int signal) {
  if (!IsConnected(name)) return;
  LaunchMessage message;
  message.mutable_signal()->set_id(id);
  message.mutable_signal()->set_signal(signal);
  Find(name)->link->Send(message);
}

}  // namespace hp
