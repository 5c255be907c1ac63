#pragma once

#include "checkpoint/snapshot.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <string>
#include <vector>

namespace hp {

// Caffe's files as HDF5, which have no limit of size: float32 datasets /data/LAYER/0, /data/LAYER/1, ... of a
// .caffemodel.h5, and of a .solverstate.h5 the integers /iter and /current_step, the string /learned_net, and datasets
// /history/0, /history/1, ... in the order of the net's parameters. Source: Caffe, src/caffe/net.cpp (Net::ToHDF5) and
// src/caffe/solvers/sgd_solver.cpp (SGDSolver::SnapshotSolverStateToHDF5). A '/' in a layer's name is one of the path:
// groups in groups, which Caffe's writer fails to make and its reader passes over. Any thread; the library does one
// thing at a time. All also return kFailedPrecondition: CheckHdf5.

/// How many parts, with a '/' between them, a layer's name may have in these files.
constexpr int kMostHdf5NameParts = 64;

/// Whether a path's name says that the file is HDF5: it ends in ".h5".
bool IsHdf5Path(const std::string& path);
/// Whether a file is to be read as HDF5: its name ends in ".h5", or it begins as such files do. Blocks for the disk;
/// false: it cannot be read.
bool IsHdf5File(const std::string& path);

/// Writes a .caffemodel.h5 to `path`, which is replaced; it is not synced. Blobs are read 4 MiB at a time, or a row.
/// @param blobs of layers whose names fit (CheckSnapshotNames).
/// @return kResourceExhausted: no space; kInvalidArgument: another error of the disk; or that of a blob's source.
Status WriteHdf5Model(const std::string& path, const BlobRefs& blobs);
/// Likewise a .solverstate.h5. @param head iter, learned_net, current_step; its history is not read.
Status WriteHdf5State(const std::string& path, const caffe::SolverState& head, const std::vector<BlobRef>& histories);

/// @return kNotFound: no such file; kDataLoss: no HDF5 file, or not a .caffemodel.h5.
StatusOr<CaffeModel> ReadHdf5Model(const std::string& path);
/// @param head gets iter, learned_net, current_step and has_manifest. Errors likewise.
Status ReadHdf5Head(const std::string& path, caffe::SolverState* head);
/// @param head as ReadHdf5Head. @return the histories; errors likewise.
StatusOr<std::vector<Blob>> ReadHdf5State(const std::string& path, caffe::SolverState* head);

}  // namespace hp
