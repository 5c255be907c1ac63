#include "base/job_environment.h"

#include "base/format.h"

#include <charconv>

namespace hp {
namespace {

constexpr int64_t kMaxTasks = 1'000'000;
constexpr int64_t kMaxTime = int64_t{1} << 40;  // seconds: 34,000 years

struct Launcher {
  const char* name;
  const char* task;
  const char* tasks;  // empty: it does not say
  bool needs_tasks;   // without `tasks` the process is none of its tasks
  const char* local;  // empty: it does not say
  const char* run;    // its number of the job; empty: it does not say
};

// SLURM_PROCID also stands in the environment of a batch script, SLURM_STEP_NUM_TASKS in those of srun's tasks alone.
constexpr Launcher kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true, "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true, "SLURM_LOCALID", "SLURM_JOB_ID"},
    {"PMIx", "PMIX_RANK", "", false, "", "PMIX_NAMESPACE"},
    {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", true, "LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
    {"Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", false, "", ""},
};

struct Scheduler {
  const char* name;
  const char* variable;  // its number of the job
};

constexpr Scheduler kSchedulers[] = {
    {"Slurm job ", "SLURM_JOB_ID"}, {"PBS job ", "PBS_JOBID"}, {"LSF job ", "LSB_JOBID"}};

StatusOr<int64_t> ReadNumber(const EnvironmentReader& read, const char* name, int64_t most, int64_t missing) {
  const std::string text = *name == '\0' ? "" : read(name);
  if (text.empty()) return missing;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0 && number <= most) return number;
  return InvalidArgument("the environment variable %s is \"%s\"; expected a number from 0 to %lld", name,
                         Printable(text).c_str(), static_cast<long long>(most));
}

Status ReadTask(const EnvironmentReader& read, const Launcher& launcher, JobEnvironment* job) {
  HP_ASSIGN_OR_RETURN(job->task, ReadNumber(read, launcher.task, kMaxTasks - 1, -1));
  HP_ASSIGN_OR_RETURN(job->tasks, ReadNumber(read, launcher.tasks, kMaxTasks, 0));
  HP_ASSIGN_OR_RETURN(job->local_task, ReadNumber(read, launcher.local, kMaxTasks - 1, -1));
  job->launcher = launcher.name;
  const std::string run = *launcher.run == '\0' ? "" : read(launcher.run);
  const bool named = !run.empty() && run != "none";  // torchrun's word where nobody named it
  if (named) job->run = job->launcher + " job " + Printable(run);
  job->task_from = launcher.task;
  job->tasks_from = launcher.tasks;
  if (job->tasks == 0 || job->task < job->tasks) return OkStatus();
  return InvalidArgument("the environment variable %s is %d, and %s is %d; expected an index below the number of tasks",
                         launcher.task, job->task, launcher.tasks, job->tasks);
}

std::string AllocationOf(const EnvironmentReader& read) {
  for (const Scheduler& scheduler : kSchedulers) {
    if (const std::string id = read(scheduler.variable); !id.empty()) return scheduler.name + Printable(id);
  }
  return read("JOB_COMPLETION_INDEX").empty() ? "" : "Kubernetes job";
}

}  // namespace

std::string JobEnvironment::Describe() const {
  std::string text = "task " + std::to_string(task);
  if (tasks > 0) text += " of " + std::to_string(tasks);
  text += " (" + (allocation.empty() ? launcher : allocation);
  if (restarts > 0) text += ", restart " + std::to_string(restarts);
  return text + ")";
}

StatusOr<JobEnvironment> ReadJobEnvironment(const EnvironmentReader& read) {
  JobEnvironment job;
  job.allocation = AllocationOf(read);
  HP_ASSIGN_OR_RETURN(job.restarts, ReadNumber(read, "SLURM_RESTART_COUNT", kMaxTasks, 0));
  HP_ASSIGN_OR_RETURN(job.end_time_s, ReadNumber(read, "SLURM_JOB_END_TIME", kMaxTime, 0));
  for (const Launcher& launcher : kLaunchers) {
    if (read(launcher.task).empty() || (launcher.needs_tasks && read(launcher.tasks).empty())) continue;
    HP_RETURN_IF_ERROR(ReadTask(read, launcher, &job));
    break;
  }
  return job;
}

}  // namespace hp
