#pragma once

#include "hp/status.h"
#include "node/job_files.h"

#include <string>

namespace hp {

/// What a node's data is, as nodes compare it at their handshake, in a line for hplaunch, which asks each host that
/// reads samples before it starts a job. Blocks for the data. Errors as FindNode's and JobFiles::Read's.
StatusOr<std::string> DescribeData(const RoutingTable& table, const std::string& node, const InputOptions& input);

}  // namespace hp
