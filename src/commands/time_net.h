#pragma once

#include "backend/backend.h"
#include "base/sample_shape.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "tensor/device.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hp {

struct TimeNetOptions {
  SampleShape sample;
  caffe::Phase phase = caffe::TRAIN;  ///< whose layers are timed; TEST has no backward pass
  int64_t iterations = 50;            ///< that are timed, at least 1; one more before them warms up
  int threads = 0;                    ///< that compute; 0: DefaultThreads
  std::function<void(int64_t iteration, double seconds)> on_iteration;  ///< from 1; may be null
};

/// Mean seconds of a layer's passes over one batch.
struct TimedLayer {
  std::string name;  ///< empty: what stands between layers, such as changes of layout
  double forward_s = 0;
  double backward_s = 0;  ///< gradients of its inputs and parameters
};

/// Runs forward and backward passes of the whole net with random values, without reading data and without updates, as
/// `caffe time` does, and times each layer. On a GPU each pass waits for the one before, with no overlap and no
/// recordings, so that times add up to more than a training takes. Blocks; main thread.
/// @return in the order of the layers, without sources; kInvalidArgument: a fault of the net, or it needs more memory
/// than the host has free; kResourceExhausted, kInternal: the device is out of memory, or failed.
StatusOr<std::vector<TimedLayer>> TimeNet(const std::shared_ptr<const caffe::NetParameter>& net, Device* device,
                                          Backend* backend, const TimeNetOptions& options);

}  // namespace hp
