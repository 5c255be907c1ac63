#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// A key-value store through which replicas exchange what NCCL needs to connect them. Implemented over the node's own
/// connections (src/node/rendezvous.h). Any thread.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  /// Publishes `value`, any bytes, under `key` to all replicas. Each key is set once, by one replica. Does not wait for
  /// anybody. @return an error: not all replicas can be reached.
  virtual Status Set(const std::string& key, const std::string& value) = 0;
  /// Blocks until some replica has set `key`; returns its value. @return an error: the job ends before that.
  virtual StatusOr<std::string> Get(const std::string& key) = 0;
  /// @return an error: the job has ended, so Get would fail.
  virtual Status Check() = 0;
};

}  // namespace hp
