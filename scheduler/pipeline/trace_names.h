#pragma once

#include "scheduler/pipeline/task.h"
#include "transport/transport.h"

#include <string>

namespace hp {

/// What traces call things, those of a run as those of a simulation.
constexpr const char* kExecutorTrack = "executor";
constexpr const char* kLinkOutTrack = "link out";
constexpr const char* kLinkInTrack = "link in";

/// "3:1.0": clock, micro-batch and replica; of a test "3:test 1.0".
std::string TraceName(MsgId id);
/// "forward segment 0 id 3:1.0", "update group 2 clock 3".
std::string TraceName(const Task& task);
/// "tensor 4 id 3:1.0 conv0 > fc1": the port's channel, and who sends it to whom.
std::string TraceNameOfTensor(const PlaceTag& tag, const std::string& from, const std::string& to);

}  // namespace hp
