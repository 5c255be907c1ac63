#pragma once

#include "hp/status.h"
#include "scheduler/plan/routing_table.h"

#include "devices/devices.h"

namespace hp::test {

/// What a node of a test's job computes on: fake_gpu_under_test.cc or real_gpu_under_test.cc.
StatusOr<NodeDevice> OpenGpuUnderTest(Rank rank, Precision precision);

}  // namespace hp::test
