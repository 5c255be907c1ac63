#pragma once

#include "hp/status.h"
#include "proto/launch.pb.h"
#include "tools/cluster/event_loop.h"
#include "tools/cluster/file_transfer.h"
#include "tools/cluster/host_link.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp {

struct AgentSetOptions {
  std::vector<std::string> ssh;  ///< how to reach other hosts: the words of --ssh
  std::string local_program;     ///< hplaunch on this host
  std::string remote_program;    ///< and on the others, without a bundle
  std::string bundle;            ///< bytes of a tarball for the others; empty: they have the programs
  LaunchHello hello;             ///< to each agent
};

/// What a process that was asked something has said.
struct Answered {
  int status = -1;  ///< exit status
  std::vector<std::string> lines;
};

/// hplaunch's agents, one for each host. Requests go to several hosts at once; those that return a Status block until
/// all have answered, and fail with the first fault of any, host named. Meanwhile signals are handled and processes
/// watched. One thread.
class AgentSet {
 public:
  struct Callbacks {
    std::function<void(int id, const std::string& line)> on_output;           ///< of a process started by Start
    std::function<void(int id, const ProcessExit& exit)> on_exit;             ///< of one; its host has reported it dead
    std::function<void(const std::string& host, const Status& why)> on_lost;  ///< an agent is gone
    std::function<void(int signal)> on_signal;  ///< SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP
  };
  AgentSet(AgentSetOptions options, Callbacks callbacks);

  /// Starts agents on hosts that have none, and waits for their hellos.
  /// @return kUnavailable: a host can't be reached; kFailedPrecondition: its key is unknown, or it has another version;
  /// kNotFound: no hplaunch there.
  Status Connect(const std::vector<std::string>& hosts);
  /// Likewise, but one that fails fails alone: it is disconnected again.
  /// @return what became of each host, errors as Connect's; or the status of Interrupt.
  StatusOr<std::map<std::string, Status>> TryConnect(const std::vector<std::string>& hosts);
  /// Ends an agent and all that it started, if there is one. Not waited for.
  void Disconnect(const std::string& host);
  bool IsConnected(const std::string& host) const;
  /// Whether its agent is gone. One that has not said hello yet is neither lost nor connected.
  bool IsLost(const std::string& host) const;
  /// Waits until no agent of `host` can have a process left: it is gone, and fell silent 10 s ago.
  Status AwaitSilence(const std::string& host);

  /// @return free ports of the host (FreePorts), held until the next call or the agent's end.
  StatusOr<std::vector<int>> TakePorts(const std::string& host, int count);
  /// Has each of these files of this host at each of these hosts, at the same path or beside `to` instead of `from`.
  /// What is there already with the same content is not sent. @return errors of FileReceiver, also of disks there.
  Status PutFiles(const std::vector<std::string>& hosts, const std::vector<std::string>& paths,
                  const std::string& from = "", const std::string& to = "");
  /// Renames a file or folder of a host to a name that nothing has there.
  Status MoveFolder(const std::string& host, const std::string& from, const std::string& to);
  /// Whether a host has something of this path.
  StatusOr<bool> Has(const std::string& host, const std::string& path);
  /// Removes a file of a host, if it is there.
  Status Remove(const std::string& host, const std::string& path);
  /// Runs a program on each of these hosts to its end, and collects what they say, by host.
  /// @param arguments by host.
  StatusOr<std::map<std::string, Answered>> Ask(const std::string& program,
                                                const std::map<std::string, std::vector<std::string>>& arguments);

  /// Starts a process, of which on_output and on_exit tell. @return its id. @param token empty: none.
  int Start(const std::string& host, const std::string& program, const std::vector<std::string>& arguments,
            const std::string& token);
  void Signal(const std::string& host, int id, int signal);

  /// Waits until `done`. @param all_needed whether the loss of an agent is an error.
  /// @return the status of Interrupt; kUnavailable: an agent is gone.
  Status Await(const std::function<bool()>& done, bool all_needed);
  /// Calls `handler` every 0.5 s.
  void OnTick(std::function<void()> handler) { on_tick_ = std::move(handler); }
  /// Makes the call that waits, and all later ones, return this.
  void Interrupt(Status why) { interrupted_ = std::move(why); }

  /// XXH64 of each host's hpnode.
  const std::map<std::string, uint64_t>& programs() const { return programs_; }
  int64_t sent_files() const { return sent_files_; }  ///< that were not there

 private:
  /// What PutFiles says of each file. @return kNotFound, kInvalidArgument: one can't be read; else as PutFiles.
  StatusOr<std::vector<FilePut>> Describe(const std::vector<std::string>& paths);

  struct Pending {
    std::string from;
    FilePut put;
  };
  struct Host {
    std::string name;
    std::unique_ptr<HostLink> link;
    bool ready = false, lost = false;
    bool needed = true;  // false: its fault is none of others' requests
    std::vector<int> ports;
    std::deque<Pending> files;             // to put; the first is announced
    std::unique_ptr<FileSender> sender;    // of the first
    Status fault;                          // of what it was asked last
    bool answered = false, there = false;  // what MoveFolder, Has or Remove asked
  };

  void Open(const std::string& name, bool needed);
  void OpenLink(Host* host);
  void OnMessage(Host* host, const LaunchMessage& message);
  void OnHello(Host* host, const LaunchHello& hello);
  void OnFile(Host* host, const FileAnswer& answer);
  void Announce(Host* host);
  void SendMore(Host* host);
  void Tick();
  Host* Find(const std::string& name) { return &*hosts_.at(name); }
  Status FirstFault() const;
  Status Ask(Host* host, const FolderMove& move);
  Status AwaitHosts(const std::vector<std::string>& hosts, const std::function<bool(const Host&)>& done);

  const AgentSetOptions options_;
  const Callbacks callbacks_;
  EventLoop loop_;
  std::map<std::string, std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Host>> old_;  // their links end in the loop
  std::map<std::string, uint64_t> programs_;
  std::map<int, Answered> asked_;  // by id
  std::function<void()> on_tick_;
  Status interrupted_;
  int next_id_ = 1;
  bool all_needed_ = true;  // of the call that waits
  int64_t sent_files_ = 0;
};

}  // namespace hp
