#pragma once

#include "hp/status.h"

#include <vector>

namespace hp {

/// TCP ports of this host that nobody else uses, and that no other FreePorts gets while this one lives: it holds each
/// bound, so that a program may still listen there if it sets SO_REUSEADDR, as hpnode does.
class FreePorts {
 public:
  FreePorts() = default;
  FreePorts(const FreePorts&) = delete;
  ~FreePorts() { Release(); }

  /// Lets go of the ports that it holds, and takes `count` others. @return their numbers, below those that the kernel
  /// chooses from for connections; kResourceExhausted: too few are free.
  StatusOr<std::vector<int>> Take(int count);
  void Release();

 private:
  std::vector<int> held_;
};

}  // namespace hp
