#pragma once

#include <cstddef>

namespace hp {

/// Tasks that may be put into a device's queues and not be collected yet (Compute), at the most: so many have memory of
/// their own for what crosses between them and the host.
constexpr size_t kMostTasksAhead = 8;

}  // namespace hp
