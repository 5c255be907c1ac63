#pragma once

#include "backend/backend.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "tensor/device.h"

#include <functional>
#include <string>
#include <vector>

namespace hp {

struct EvaluateOptions {
  int64_t iterations = 50;  ///< batches of the TEST phase's batch_size
  int threads = 0;          ///< 0: all cores
  int reader_threads = 1;
  std::string cache_dir;
  /// Called for every batch with the values of all outputs.
  std::function<void(int64_t batch, const std::vector<float>& values)> on_batch;
};

/// One output of a net (loss, accuracy), as the mean over all batches.
struct Evaluated {
  std::string name;
  float loss_weight = 0;
  double mean = 0;
};

/// Runs the TEST phase of `net` with the weights of `model` over its database, from the first record on.
/// @param device,backend what it computes on; both outlive the call.
/// @return kInvalidArgument, kNotFound, kFailedPrecondition: net, weights or data do not fit (named);
/// kResourceExhausted: the device has not so much memory.
StatusOr<std::vector<Evaluated>> Evaluate(const caffe::NetParameter& net, const CaffeModel& model, Device* device,
                                          Backend* backend, const EvaluateOptions& options);

}  // namespace hp
