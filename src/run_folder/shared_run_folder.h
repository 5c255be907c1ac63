#pragma once

#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace hp {

/// Which run a node is of, and which start of it. Nodes of equal ones go into a run folder together.
struct RunStart {
  std::string run;     ///< what all nodes of the run know and no other run has, for people: "Slurm job 12"
  int64_t number = 0;  ///< of the start: a later one has a higher one; 0: whoever starts the run does not count
  uint64_t table = 0;  ///< hash of the table, alike on all nodes of the start
};

/// A run's folder as the nodes of one run share it, from several hosts perhaps: logs/, snapshots/, record.txt, and
/// run.lock, which says whose it is. Its locks are those of the system (fcntl, over NFS too), so what a killed node
/// held is free. README.md has the rule by which a node may go in. One thread at a time.
class SharedRunFolder {
 public:
  /// The name of a process that is all nodes of its table.
  static constexpr char kAllNodes[] = "all";

  /// Makes the folder, or goes on in one that is there, and takes part in the incarnation that runs in it, or begins
  /// the next one; then logs of those that are long past go. Blocks for the disk, and for other nodes that do the same.
  /// @param path absolute. @param node its name, one of the table's.
  /// @return kFailedPrecondition: another run lives in it, and which, or the disk has no locks; kInvalidArgument: it
  /// can't be made or written; kResourceExhausted: no disk space.
  static StatusOr<std::unique_ptr<SharedRunFolder>> Enter(const std::string& path, const RunStart& start,
                                                          const std::string& node);
  /// Leaves it.
  ~SharedRunFolder();
  SharedRunFolder(const SharedRunFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Of the run in this folder, from 1; the same on all nodes that share the folder.
  int incarnation() const { return incarnation_; }
  /// logs/NODE.INCARNATION.log
  std::string log_path() const;
  /// Adds a line to record.txt: the time, the node, the incarnation and the text. Other nodes may do so at once.
  /// @return kResourceExhausted, kInvalidArgument: it was not written.
  Status Record(const std::string& text);

 private:
  SharedRunFolder(std::string path, std::string node, int record, int lock)
      : path_(std::move(path)), node_(std::move(node)), record_(record), lock_(lock) {}
  /// With the gate held.
  Status Join(const RunStart& start);
  Status Begin(const RunStart& start);
  Status AddLine(const std::string& line);

  const std::string path_, node_;
  const int record_, lock_;  // descriptors
  int incarnation_ = 0;
};

}  // namespace hp
