#pragma once

#include <compare>
#include <cstdint>

namespace hp {

/// Names a place that one node of an exchange grants to another: both compute the number from a plan.
struct LinkPlace {
  uint64_t clock = 0;   ///< the update
  uint32_t number = 0;  ///< among the update's places between the two

  auto operator<=>(const LinkPlace&) const = default;
};

/// Names one open grant of a peer; only the links look inside.
struct LinkGrant {
  uint32_t index = 0;
  uint32_t generation = 0;
};

}  // namespace hp
