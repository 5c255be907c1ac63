#include "transport/copy/copy_queue.h"

#include <utility>

namespace hp {

void CopyQueue::Start(const std::string& thread_name) {
  thread_ = Thread(thread_name, [this] { Run(); });
}

void CopyQueue::Push(Begin begin, Done done) {
  PushToRunHere(std::move(begin), std::move(done));
  changed_.SignalAll();
}

void CopyQueue::PushToRunHere(Begin begin, Done done) {
  MutexLock lock(&mutex_);
  if (!stopping_) jobs_.push_back({std::move(begin), std::move(done)});
}

// Only what is alone: a thread that posts does not do the work of others.
void CopyQueue::RunHere() {
  std::deque<Job> job;
  {
    MutexLock lock(&mutex_);
    if (runner_ != Runner::kNobody || jobs_.size() != 1) return changed_.SignalAll();
    job.swap(jobs_);
    runner_ = Runner::kHere;
  }
  End(Started(std::move(job.front())));
  MutexLock lock(&mutex_);
  runner_ = Runner::kNobody;
  if (stopping_ || !jobs_.empty()) changed_.SignalAll();
}

void CopyQueue::Stop() {
  std::deque<Job> forgotten;  // destroyed without the lock: jobs own links
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    forgotten.swap(jobs_);
    changed_.SignalAll();
  }
  thread_.Join();
}

std::deque<CopyQueue::Job> CopyQueue::Take(bool wait) {
  MutexLock lock(&mutex_);
  if (wait && runner_ == Runner::kThread) runner_ = Runner::kNobody;
  while (runner_ == Runner::kHere || (wait && jobs_.empty() && !stopping_)) changed_.Wait(&mutex_);
  if (!jobs_.empty()) runner_ = Runner::kThread;
  return std::exchange(jobs_, {});
}

CopyQueue::UnderWay CopyQueue::Started(Job job) {
  UnderWay under_way{std::move(job.done), job.begin()};
  if (under_way.status.ok()) under_way.mark = copier_->Record();
  return under_way;
}

bool CopyQueue::stopping() {
  MutexLock lock(&mutex_);
  return stopping_;
}

void CopyQueue::End(const UnderWay& job) {
  const Status status = job.status.ok() ? copier_->Wait(job.mark) : job.status;
  if (!stopping()) job.done(status);
}

// What the processors copy is done when it has begun: reported before the next copy, it is there sooner.
void CopyQueue::Run() {
  std::deque<UnderWay> under_way;
  for (;;) {
    std::deque<Job> jobs = Take(under_way.empty());
    if (jobs.empty() && under_way.empty()) return;  // stopping
    for (Job& job : jobs) {
      under_way.push_back(Started(std::move(job)));
      if (!copier_->is_host()) continue;
      End(under_way.front());
      under_way.pop_front();
    }
    if (under_way.empty()) continue;
    End(under_way.front());
    under_way.pop_front();
  }
}

}  // namespace hp
