#pragma once

#include "base/log_writer.h"

#include "run_folder/rotating_log.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// What the nodes of one incarnation say: on standard output with host and node in front of each line, and in a log of
/// each node. Threads of their own write both, so that neither a stopped terminal nor a slow disk holds hplaunch up:
/// lines that they do not take are left out, which the terminal says of its own, and a warning of the logs'. One
/// thread.
class JobOutput {
 public:
  static constexpr size_t kMostWaitingLines = 65536;  ///< for the terminal, and for the logs
  static constexpr size_t kLastLines = 20;            ///< of each node

  JobOutput();
  /// Waits until the logs are written, and 2 s for the terminal.
  ~JobOutput();

  /// A new incarnation: the nodes by index, and where their logs go.
  struct Node {
    std::string host, name, log_path;
  };
  void Begin(std::vector<Node> nodes);
  /// @param line of the node with this index, without its newline. Never blocks.
  void Add(int node, const std::string& line);
  /// The last lines of a node, as they were shown; kLastLines at most.
  std::vector<std::string> LastLines(int node) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::deque<std::string>> last_;
  struct Log {
    std::string path;
    std::unique_ptr<RotatingLog> file;
    bool failed = false;  // which has been said
  };
  void WriteToLog(const LogWriter::Line& line);

  // Both of the thread of files_, whose lines have the node in `time`.
  std::map<int, Log> logs_;  // by node
  std::string log_folder_;   // of the latest line
  std::unique_ptr<LogWriter> terminal_, files_;
};

}  // namespace hp
