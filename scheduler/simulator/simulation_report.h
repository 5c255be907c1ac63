#pragma once

#include "scheduler/simulator/simulation.h"

#include <string>

namespace hp {

/// What came of a simulation, for a terminal: speed, what each kind of node does with its time, how busy the hosts'
/// links are, and what the bottleneck is. Nodes and hosts that do the same, within a per cent, share a line.
std::string DescribeSimulation(const SimulatedJob& job, const SimulationResult& result);

/// The busiest resource, such as "link into host \"b\", busy 93% of the time".
std::string BottleneckOf(const SimulatedJob& job, const SimulationResult& result);

}  // namespace hp
