#pragma once

#include "hp/status.h"

#include <functional>
#include <string>

namespace hp {

/// The id of the run that a process takes part in: what it was given, or else the scheduler's id of the job with its
/// restart count: SLURM_JOB_ID and SLURM_RESTART_COUNT, PMIX_NAMESPACE, TORCHELASTIC_RUN_ID.
/// @param given by a flag or a URL. @param environment reads a variable, as Environment().
/// @return empty: neither says one; kInvalidArgument: it is none (CheckRunId).
StatusOr<std::string> RunIdFor(const std::string& given, const std::function<std::string(const char*)>& environment);

/// Run ids are 1 to 64 letters, digits and "._-", and do not begin with ".": they name folders and keys.
Status CheckRunId(const std::string& id);

}  // namespace hp
