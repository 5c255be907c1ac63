#pragma once

#include <cstdint>

namespace hp {

/// Counts whatever nodes of one job must agree on beside net, solver and table: the messages of wire.proto, and the
/// ports that a plan has. Nodes of different ones refuse each other.
constexpr uint32_t kNodeProtocol = 13;

}  // namespace hp
