#pragma once

#include <cstdint>

namespace hp {

/// Bytes of tensors that a node sent to other nodes and received from them, without what frames them.
struct Payload {
  int64_t sent = 0, received = 0;

  Payload& operator+=(const Payload& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
  bool operator==(const Payload&) const = default;
};

}  // namespace hp
