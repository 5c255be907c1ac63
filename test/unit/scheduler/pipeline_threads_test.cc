// The pipelines of whole jobs with a thread for each executor and each transport, and for each device's completions.
#include "test/unit/scheduler/threaded.h"

#include <gtest/gtest.h>

namespace hp::test {
namespace {

TEST(PipelineThreads, JobsEndOverTheInprocTransport) {
  std::vector<JobSpec> jobs = {OneFcStage(2, 2, false), OneFcStage(3, 1, true), TwoFcStages(2, 1, 2, false, true),
                               ThereAndBack(2, 2, 2), NoFcStage(2)};
  for (JobSpec& job : jobs) {
    job.shape = UnevenShape(job.stages[0].parts, 3, 5);
    for (int pool : {1, 20}) {
      job.pool_size = pool;
      job.wait_for_verdict = pool == 1;
      for (const bool enqueues : {false, true}) {
        job.enqueues = enqueues;
        const std::vector<std::string> faults = RunThreaded(job, 5);
        ASSERT_TRUE(faults.empty()) << job.name << ", pool " << pool << ", enqueues " << enqueues << "\n"
                                    << Lines(faults);
      }
    }
  }
}

}  // namespace
}  // namespace hp::test
