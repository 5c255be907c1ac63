#pragma once

namespace hp::test {

/// While it lives, flock fails with an errno, as on a disk without locks: this test program's flock stands in front of
/// the C library's, and calls the system otherwise. One at a time. Any thread.
class FailingLocks {
 public:
  explicit FailingLocks(int error);
  ~FailingLocks();
  FailingLocks(const FailingLocks&) = delete;
};

}  // namespace hp::test
