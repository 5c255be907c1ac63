#pragma once

#include "hp/status.h"
#include "proto/routing.pb.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// What `hptrain` trains, and on what of this machine.
struct LocalJob {
  std::string solver;               ///< path of the solver file, or of a pipe
  std::vector<int> gpus;            ///< indices; empty: the processors. Several: batch_size is that of each
  std::optional<int> level;         ///< of the training net's state, in place of what net and solver say
  std::vector<std::string> stages;  ///< of that state, beside theirs
  int64_t iterations = 0;           ///< in place of max_iter; 0: as the solver says
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32;
  RoutingTableConfig::ConvolutionEngines convolution_engines = RoutingTableConfig::HEURISTIC;
  RoutingTableConfig::JpegDecoder jpeg_decoder = RoutingTableConfig::HOST;
};

/// Reads a flag --gpu.
/// @param text numbers separated by commas, "all", or nothing. @param count says how many GPUs this machine has; it is
/// asked for "all" alone.
/// @return indices of GPUs; none for no text. kInvalidArgument: the text is no such list, or names a GPU twice; what
/// `count` returned where it failed, kFailedPrecondition where it counted none.
StatusOr<std::vector<int>> GpusOfFlag(const std::string& text, const std::function<StatusOr<int>()>& count);

/// The device of a program that computes on one: --device, or --gpu as Caffe's programs have it.
/// @param device "cpu" where the flag was not given. @param gpu,count as for GpusOfFlag; empty: `device` it is.
/// @return a name as OpenNodeDevice takes it; of several GPUs the first, and the log says so, as Caffe's does.
/// kInvalidArgument: both are given; what GpusOfFlag does.
StatusOr<std::string> DeviceOfFlags(const std::string& device, const std::string& gpu,
                                    const std::function<StatusOr<int>()>& count);

/// Writes the routing table of a job on this machine alone, one replica of the whole net on the processors or on each
/// GPU, to SNAPSHOT_PREFIX_hptrain_table_XXXXXXXX.prototxt, or where that can't be written to a new folder for
/// temporary files; where level, stages or iterations change the solver, a solver beside it
/// (..._hptrain_solver_XXXXXXXX.prototxt). The same job has the same names again. Logs what it wrote, and the batch of
/// several GPUs.
/// @return the table's path; kInvalidArgument, kNotFound: a fault of solver, net or options, or there is no folder for
/// snapshots.
StatusOr<std::string> WriteLocalJob(const LocalJob& job);

}  // namespace hp
