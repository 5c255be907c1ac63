#pragma once

#include "hp/status.h"
#include "proto/control.pb.h"

#include <string>
#include <vector>

namespace hp {

/// The order that the words of a command line stand for: "snapshot", "stop", "lr 0.001", "trace on", "trace off".
/// @return kInvalidArgument: what was expected.
StatusOr<JobOrder> ParseOrder(const std::vector<std::string>& words);

/// What is said about an order that all nodes carry out in front of `iteration`.
std::string DescribeOrder(const JobOrder& order, int64_t iteration);

}  // namespace hp
