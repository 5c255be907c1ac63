#pragma once

#include "backend/backend.h"
#include "checkpoint/weights.h"
#include "commands/forward_net.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "tensor/device.h"

#include <functional>
#include <string>
#include <vector>

namespace hp {

struct EvaluateOptions {
  int64_t iterations =
      50;           ///< batches of the TEST phase's batch_size, as Caffe's test_iter; 1 to MsgId::kMaxMicroBatches
  int threads = 0;  ///< OpenMP threads of the calling thread; 0: DefaultThreads
  int reader_threads = 1;          ///< at least 1
  std::string cache_dir;           ///< DatasetOptions::cache_dir
  int64_t max_bad_records = 0;     ///< InputOptions
  bool check_labels = true;        ///< false: labels that are no class count as wrong, or are ignored
  std::vector<std::string> blobs;  ///< that on_batch may read (ForwardNetOptions::blobs)
  /// Called for every batch, from 0 and in order, with the values of all outputs; on the calling thread. An error ends
  /// the evaluation. May be null.
  std::function<Status(int64_t batch, const std::vector<float>& values, const ForwardNet& net)> on_batch;
};

/// One output of a net, a loss or an accuracy, and its mean over all batches, without its loss_weight.
struct Evaluated : ForwardNet::Output {
  double mean = 0;
};

/// Runs the TEST phase of `net` with the weights of `model` over the database of its Data layer, from the first record
/// on, as `caffe test` does, and writes the files of its HDF5Output layers (OutputFiles). Blocks until it is done;
/// reads ahead on threads of its own.
/// @param device,backend what it computes on; both must outlive the call.
/// @return one entry for each output, in the order of their names, as in on_batch. kInvalidArgument, kNotFound,
/// kFailedPrecondition, kDataLoss: net, weights or data are missing or do not fit (named); kResourceExhausted: the
/// device is out of memory, or the system lets it start too few threads; kInternal: it failed; an error of on_batch.
StatusOr<std::vector<Evaluated>> Evaluate(const caffe::NetParameter& net, const CaffeModel& model, Device* device,
                                          Backend* backend, const EvaluateOptions& options);

}  // namespace hp
