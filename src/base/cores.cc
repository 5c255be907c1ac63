#include "base/cores.h"

#include "base/cgroup.h"
#include "base/environment.h"
#include "base/format.h"
#include "base/hash.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <thread>

namespace hp {
namespace {

/// The CPU set; where the system does not say, all processors.
CorePool OwnCpuSet() {
  // The kernel refuses a mask that is shorter than its own: it is asked with longer ones until it answers.
  for (int cpus = CPU_SETSIZE; cpus <= CPU_SETSIZE << 6; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(cpus),
                                                               [](cpu_set_t* mask) { CPU_FREE(mask); });
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::string numbers;
    for (int cpu = 0; cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) numbers += Format("%d,", cpu);
    }
    return {HashBytes("cpus " + numbers), std::max(1, CPU_COUNT_S(bytes, set.get()))};
  }
  return {0, static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))};
}

}  // namespace

std::vector<CorePool> CorePools(const std::string& root) {
  std::vector<CorePool> pools = {OwnCpuSet()};
  for (const CpuQuota& quota : CpuQuotas(root)) {
    pools.push_back({HashBytes(Format("group %llu", static_cast<unsigned long long>(quota.group))), quota.cores});
  }
  return pools;
}

int AvailableCores(const std::string& root) {
  const std::vector<CorePool> pools = CorePools(root);
  return std::min_element(pools.begin(), pools.end(),
                          [](const CorePool& a, const CorePool& b) { return a.cores < b.cores; })
      ->cores;
}

int ThreadsOfEnvironment() {
  const std::string text = Environment("OMP_NUM_THREADS");
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  const bool whole = end == text.data() + text.size() || *end == ',';  // a list is for teams within teams
  return error == std::errc() && whole && threads > 0 && threads <= kMaxThreads ? threads : 0;
}

int DefaultThreads() {
  const int threads = ThreadsOfEnvironment();
  return threads > 0 ? threads : AvailableCores();
}

}  // namespace hp
