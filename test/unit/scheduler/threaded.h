#pragma once

#include "test/unit/scheduler/pipeline_job.h"

#include <string>
#include <vector>

namespace hp::test {

/// Runs a job over the in-process transport with random delays: an executor and a progress thread for each node.
/// @return what was wrong, one line each; empty if nothing was.
std::vector<std::string> RunThreaded(const JobSpec& job, uint64_t seed);

}  // namespace hp::test
