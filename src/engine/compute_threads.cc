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
#pragma omp parallel  // from now on its threads are there
  {}
  return OkStatus();
}

}  // namespace hp
