#pragma once

#include "proto/phase.h"
#include "scheduler/plan/job_plan.h"

namespace hp {

/// The output that stands for the accuracy of a phase's net: that of its last classifier, since side classifiers stand
/// in front of it, and of several of that one the one with the fewest guesses: top-1 rather than top-5.
/// @param phase of job.phases(). @return an index into job.outputs(phase); -1: no Accuracy is an output of it. Any
/// thread.
int MainAccuracy(const JobPlan& job, Phase phase);

}  // namespace hp
