#include "engine/compute_threads.h"

#include "base/thread.h"

#include <omp.h>

namespace hp {

Status TakeComputeThreads(int threads, const std::string& need) {
  if (threads > omp_get_thread_limit()) {
    return FailedPrecondition("%s; OMP_THREAD_LIMIT allows %d", need.c_str(), omp_get_thread_limit());
  }
  if (const Status status = TryThreads(threads - 1); !status.ok()) {
    return Status(status.code(), need + "; " + status.message());
  }
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  int started = 0;  // from now on they are there; GCC would leave out a region that does nothing
#pragma omp parallel reduction(+ : started)
  ++started;
  if (started == threads) return OkStatus();
  return ResourceExhausted("%s; OpenMP started %d", need.c_str(), started);
}

void ReleaseComputeThreads() {
  omp_set_num_threads(1);
#ifndef __clang__  // whose library would send the teams of all threads to sleep
  omp_pause_resource_all(omp_pause_soft);
#endif
}

}  // namespace hp
