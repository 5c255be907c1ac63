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
/// each node. Threads of their own write both, so that neither a stopped terminal nor a slow disk holds hplaunch up.
class JobOutput {
 public:
  JobOutput();
  ~JobOutput();

  /// A new incarnation: the nodes by index, and where their logs go.
  struct Node {
    std::string host, name, log_path;
  };
  void Begin(std::vector<Node> nodes);
  void Add(int node, const std::string& line);
  /// The last lines of a node, as they were shown.
  std::vector<std::string> LastLines(int node) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::deque<std::string>> last_;
  struct Log {
    std::string path;
    std::unique_ptr<RotatingLog> file;
  };
  std::map<int, Log> logs_;  // by node; of the thread of files_, whose lines have the node in `time`
  std::unique_ptr<LogWriter> terminal_, files_;
};

}  // namespace hp
