#pragma once

#include "proto/caffe.pb.h"
#include "scheduler/plan/job_plan.h"

#include <memory>
#include <utility>

namespace hp {

/// A convolution and three products, of [1, 8, 8]; 24 samples; widths that 2 and 4 shards divide.
std::shared_ptr<const caffe::NetParameter> TailNet();

/// Bytes of an update over the links of node `rank`, out and in, by its ports and what is exchanged.
std::pair<double, double> BytesOf(const JobPlan& job, Rank rank);

}  // namespace hp
