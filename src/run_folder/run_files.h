#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"

#include <string>
#include <vector>

namespace hp {

/// The files of a job as they lie in its run folder, alike on all hosts: solver and net with absolute paths, so that a
/// node may run in any folder.
struct RunFiles {
  RoutingTableConfig table;       ///< its solver is the folder's
  caffe::SolverParameter solver;  ///< its net is the folder's, its snapshot_prefix absolute
  caffe::NetParameter net;        ///< its sources and mean files are absolute
  std::vector<std::string> data;  ///< databases and mean files, each once
  /// Lists of files that layers read, each once. What they name is not looked at: neither is copied to other hosts.
  std::vector<std::string> lists;
  std::string comment;  ///< on top of the table
};

/// Reads solver and net. Relative paths in the net are taken from the working directory, as in Caffe. A relative
/// snapshot_prefix, or none, becomes FOLDER/snapshots/NAME; an absolute one stays.
/// @param folder absolute. @param solver_path the solver that the table names, as it can be opened.
/// @return the errors of ReadSolver and ReadNet.
StatusOr<RunFiles> ReadRunFiles(const RoutingTableConfig& table, const std::string& solver_path,
                                const std::string& folder);

/// The snapshot_prefix of such a solver. @param solver what ReadSolver made of the file. @param folder absolute.
/// @return ReadTextProto's errors.
StatusOr<std::string> RunSnapshotPrefix(const caffe::SolverParameter& solver, const std::string& solver_path,
                                        const std::string& folder);

/// Writes net.prototxt, solver.prototxt and table.prototxt into the folder, each whole or not at all.
/// @param program that does, for their first lines. @return the paths of table, solver and net; errors as
/// WriteWholeFile.
StatusOr<std::vector<std::string>> WriteRunFiles(const RunFiles& files, const std::string& folder,
                                                 const std::string& program);

/// All files of a database or a file: itself, or what its folder has, without the lock files of LevelDB and LMDB.
/// @return kNotFound: there is no such path.
StatusOr<std::vector<std::string>> FilesBelow(const std::string& path);

}  // namespace hp
