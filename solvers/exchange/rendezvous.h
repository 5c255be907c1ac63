#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// Where the replicas leave each other their addresses before they are connected. The node's own connections carry it.
/// Any thread.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  /// Publishes `value` under `key` to all replicas. Each key is set once.
  virtual Status Set(const std::string& key, const std::string& value) = 0;
  /// Blocks until some replica has set `key`. @return any error: it will never be (a node was lost, a deadline passed).
  virtual StatusOr<std::string> Get(const std::string& key) = 0;
};

}  // namespace hp
