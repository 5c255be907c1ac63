#include "test/support/failing_locks.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace hp::test {
namespace {

std::atomic<int> failure = 0;

}  // namespace

FailingLocks::FailingLocks(int error) { failure = error; }
FailingLocks::~FailingLocks() { failure = 0; }

}  // namespace hp::test

extern "C" int flock(int fd, int operation) {
  const int error = hp::test::failure;
  if (error == 0) return static_cast<int>(syscall(SYS_flock, fd, operation));
  errno = error;
  return -1;
}
