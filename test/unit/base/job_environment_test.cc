#include "base/job_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hp {
namespace {

using ::testing::HasSubstr;

StatusOr<JobEnvironment> Read(const std::map<std::string, std::string>& variables) {
  return ReadJobEnvironment([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(JobEnvironmentTest, NobodyStartedUs) {
  const auto job = Read({{"PATH", "/bin"}});
  ASSERT_TRUE(job.ok());
  EXPECT_FALSE(job->is_task());
  EXPECT_EQ(job->allocation, "");
}

TEST(JobEnvironmentTest, ATaskOfSrun) {
  const auto job = Read({{"SLURM_JOB_ID", "12"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_RESTART_COUNT", "2"},
                         {"SLURM_JOB_END_TIME", "1700000000"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->launcher, "Slurm");
  EXPECT_EQ(job->task, 3);
  EXPECT_EQ(job->tasks, 4);
  EXPECT_EQ(job->local_task, 1);
  EXPECT_EQ(job->end_time_s, 1'700'000'000);
  EXPECT_EQ(job->run, "Slurm job 12");
  EXPECT_EQ(job->Describe(), "task 3 of 4 (Slurm job 12, restart 2)");
}

// As Slurm 22.05 has it: the script sees SLURM_PROCID and SLURM_NTASKS too.
TEST(JobEnvironmentTest, ABatchScriptIsNoTask) {
  const auto job = Read({{"SLURM_JOB_ID", "12"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}});
  ASSERT_TRUE(job.ok());
  EXPECT_FALSE(job->is_task());
  EXPECT_EQ(job->allocation, "Slurm job 12");
  EXPECT_EQ(job->run, "");
}

TEST(JobEnvironmentTest, MpirunWithinSlurmWins) {
  const auto job = Read({{"SLURM_JOB_ID", "12"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"PMIX_RANK", "5"},
                         {"PMIX_NAMESPACE", "3042377729"},
                         {"OMPI_COMM_WORLD_RANK", "5"},
                         {"OMPI_COMM_WORLD_SIZE", "8"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->launcher, "Open MPI");
  EXPECT_EQ(job->run, "Open MPI job 3042377729") << "an allocation may run several";
  EXPECT_EQ(job->task, 5);
  EXPECT_EQ(job->tasks, 8);
  EXPECT_EQ(job->local_task, 1);
  EXPECT_EQ(job->allocation, "Slurm job 12");
}

TEST(JobEnvironmentTest, OthersThatMakeTasks) {
  EXPECT_EQ(Read({{"PMIX_RANK", "5"}})->Describe(), "task 5 (PMIx)");
  EXPECT_EQ(Read({{"RANK", "0"}, {"WORLD_SIZE", "2"}})->Describe(), "task 0 of 2 (RANK and WORLD_SIZE)");
  EXPECT_EQ(Read({{"JOB_COMPLETION_INDEX", "1"}})->Describe(), "task 1 (Kubernetes job)");
  EXPECT_EQ(Read({{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "4"}})->Describe(), "task 1 of 4 (Kubernetes job)");
  // A word like RANK may mean anything by itself.
  EXPECT_FALSE(Read({{"RANK", "0"}})->is_task());
}

TEST(JobEnvironmentTest, WhatIsNoNumberIsNamed) {
  for (const char* text : {"x", "-1", "1x", "99999999999999999999"}) {
    const auto job = Read({{"RANK", text}, {"WORLD_SIZE", "2"}});
    EXPECT_EQ(job.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(job.status().message(), HasSubstr("the environment variable RANK is \"" + std::string(text) + "\""));
  }
  EXPECT_THAT(Read({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).status().message(),
              HasSubstr("RANK is 2, and WORLD_SIZE is 2"));
  EXPECT_THAT(Read({{"SLURM_JOB_END_TIME", "noon"}}).status().message(), HasSubstr("SLURM_JOB_END_TIME is \"noon\""));
}

}  // namespace
}  // namespace hp
