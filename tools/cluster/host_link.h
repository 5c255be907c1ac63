#pragma once

#include "hp/status.h"
#include "proto/launch.pb.h"
#include "tools/cluster/event_loop.h"
#include "tools/cluster/frames.h"

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// A command that starts an agent on a host.
struct AgentCommand {
  std::vector<std::string> words;
  std::string bundle;  ///< bytes to send first, should it ask for them ("want"); empty: it begins with messages
};

/// How an agent is started. @param ssh the words of --ssh; empty: on this host. @param program of hplaunch there.
/// @param bundle bytes of a tarball that is unpacked there; empty: `program` is there.
AgentCommand CommandOfAgent(const std::vector<std::string>& ssh, const std::string& host, const std::string& program,
                            const std::string& bundle);

/// hplaunch's connection to one agent: a child process, ssh or the agent itself, and its pipes. One thread. Lives as
/// long as its loop runs.
class HostLink {
 public:
  struct Callbacks {
    std::function<void(const LaunchMessage&)> on_message;
    std::function<void(const std::string&)> on_error_line;  ///< of the agent, or of ssh
    std::function<void(const Status&)> on_end;              ///< once: why there is no agent any more; never ok
  };
  HostLink(EventLoop* loop, std::string host, Callbacks callbacks);
  ~HostLink();

  /// Starts the agent. @return kNotFound: there is no such program.
  Status Open(const AgentCommand& command);
  void Send(const LaunchMessage& message);
  /// Ends the agent's input, and with it all that runs there. It is over at on_end.
  void Close();
  /// To be called at SIGCHLD.
  void Reap();

  bool ended() const { return ended_; }
  size_t waiting() const { return input_ == nullptr ? 0 : input_->waiting(); }  ///< bytes that are not sent yet
  /// Calls of Tick since anything came from it, or since it last took a piece of the bundle.
  int silent_ticks() const { return silent_ticks_; }
  void Tick();

 private:
  void OnBytes(std::string_view bytes);
  void OnFirstLine();
  void EndIfOver();
  Status WhyEnded() const;

  EventLoop* const loop_;
  const std::string host_;
  const Callbacks callbacks_;
  bool by_ssh_ = false, asks_for_bundle_ = false, greeted_ = false;
  std::string bundle_, first_line_;
  std::string held_;  // frames for the agent, until it is known whether the bundle goes first
  pid_t pid_ = -1;
  std::unique_ptr<Sink> input_;
  FrameReader frames_;
  LineReader errors_;
  std::string last_error_;  // line of ssh or the agent
  Status broken_;
  int open_pipes_ = 0, exit_ = -1, silent_ticks_ = 0;
  size_t waiting_before_ = 0;  // at the last Tick
  bool ended_ = false;
};

}  // namespace hp
