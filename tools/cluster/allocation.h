#pragma once

#include "hp/status.h"

namespace hp {

/// Whether hplaunch may start a job again: not inside an allocation of a scheduler, which does that itself.
/// @param max_restarts of --max_restarts.
/// @return kFailedPrecondition: it may not; names the scheduler, and what to use there.
Status CheckRestarts(int max_restarts);

}  // namespace hp
