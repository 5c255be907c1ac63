#pragma once

#include "base/sample_shape.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/planning.pb.h"
#include "proto/routing.pb.h"

#include <memory>
#include <string>

namespace hp {

struct ProfileOptions {
  SampleShape sample;
  /// BF16: convolutions take factors of bfloat16, if this host has instructions for it.
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32;
  std::string host;     ///< its name, as hosts.prototxt has it
  int threads = 0;      ///< that compute; 0: all processors
  double seconds = 10;  ///< about so long at most, once the nets are made; more only for one pass of one row
};

/// Runs the layers of the training net of `net` on this host's processors, one by one, with random values and a few
/// numbers of rows (1, 8, 64, ... up to the net's batch_size, as far as time and memory go), and times each pass.
/// Blocks; main thread.
/// @return kInvalidArgument: a fault of the net, or it needs more memory than the host has free.
StatusOr<ProfileConfig> ProfileNet(const std::shared_ptr<const caffe::NetParameter>& net,
                                   const ProfileOptions& options);

}  // namespace hp
