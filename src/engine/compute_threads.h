#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// Gives the calling thread an OpenMP team of just `threads` threads, and starts it: sums depend on its size. libgomp
/// would end the process if the system did not let it start one.
/// @param threads at least 1. @param need who needs how many and why, for messages: "node "a" needs 4 threads".
/// @return kFailedPrecondition: OMP_THREAD_LIMIT allows fewer; kResourceExhausted: the system does.
Status TakeComputeThreads(int threads, const std::string& need);

/// Ends the team of the calling thread, which computes alone from now on. Threads of a team that has nothing to do
/// count as much as others: with more of them than processors, those of all teams go to sleep at the end of each loop
/// instead of waiting some microseconds for the next one, which cost small nets a fifth of their speed.
void ReleaseComputeThreads();

}  // namespace hp
