// What goes wrong inside a node of a running job: all nodes end with its reason.
#include "test/cluster/contract_fixture.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace hp::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// What is logged as an error during its life.
class ErrorLines : public google::LogSink {
 public:
  ErrorLines() { google::AddLogSink(this); }
  ~ErrorLines() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity severity, const char*, const char*, int, const struct ::tm*, const char* message,
            size_t length) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (severity == google::GLOG_ERROR) lines_.emplace_back(message, length);
  }
  std::vector<std::string> lines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

bool OnProgressThread() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return std::string(name).starts_with("inproc");
}

class FailuresTest : public ContractTest {};

/// The losses of the other replica come by message. Random delays let them be the last ones of an iteration soon.
TEST_F(FailuresTest, MemoryThatTheProgressThreadCannotHave) {
  ClusterSpec table = Table(2, {}, 1, 0, false);
  table.delay_seed = 1;
  table.on_loss = [](int64_t) {
    if (OnProgressThread()) throw std::bad_alloc();
  };
  ErrorLines errors;
  const Status status = TrainCluster(table, Solver("snapshot_prefix: '" + NewPrefix() + "'", false, 1000)).status;
  EXPECT_EQ(ExitStatus(status), 2) << status;
  EXPECT_THAT(errors.lines(), Contains(HasSubstr("node conv0: out of memory: moving data between nodes")));
  EXPECT_THAT(errors.lines(), Contains(HasSubstr("lost node \"conv0\": out of memory: moving data between nodes")))
      << "the other node says why";
}

}  // namespace
}  // namespace hp::test
