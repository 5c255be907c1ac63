#pragma once

#include "hp/status.h"
#include "tools/cluster/child_process.h"
#include "tools/cluster/event_loop.h"
#include "tools/cluster/file_transfer.h"
#include "tools/cluster/frames.h"
#include "tools/cluster/free_ports.h"

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hp {

/// What runs a job's processes on one host, for the hplaunch that it is connected with: `hplaunch --agent`. It carries
/// out what comes in, and ends all that it started when nothing more can come: at the end of its input, or 8 s after
/// hplaunch fell silent. One thread.
class Agent {
 public:
  /// @param input,output descriptors, taken. @param program_folder where hpnode is.
  Agent(int input, int output, std::string program_folder);

  /// Blocks until hplaunch is gone and all processes are dead.
  /// @return kDataLoss: what came in is no message; kUnavailable: hplaunch fell silent.
  Status Run();

 private:
  struct Process {
    pid_t pid = -1;
    LineReader lines;
    std::optional<int> exit;
    bool output_ended = false;
    int64_t dropped = 0;  // lines, since hplaunch did not take them fast enough
  };

  void OnBytes(std::string_view bytes);
  void OnTick();
  void OnMessage(const LaunchMessage& message);
  void OnHello(const LaunchHello& hello);
  void OnPorts(int count);
  void OnPut(const FilePut& put);
  void OnChunk(const FileChunk& chunk);
  void OnMove(const FolderMove& move);
  void Answer(const std::string& path, FileAnswer::Answer answer, const Status& error = {});
  void Start(const ProcessStart& start);
  void OnLine(int id, const std::string& line);
  void Reap();
  void ReportExit(int id);
  void Send(const LaunchMessage& message) { output_->Send(EncodeFrame(message)); }
  void EndProcesses();

  const std::string program_folder_;
  EventLoop loop_;
  std::unique_ptr<Sink> output_;
  FrameReader frames_;
  std::string working_folder_;
  FreePorts ports_;
  FileReceiver receiver_;
  std::string receiving_;             // path
  std::map<int, Process> processes_;  // by hplaunch's id; those that are not reported dead yet
  bool has_started_ = false;  // nodes, which may have ended since; before, hplaunch may be busy with other hosts
  int silent_ticks_ = 0;
  bool input_ended_ = false;
  Status status_;
};

}  // namespace hp
