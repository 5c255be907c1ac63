#pragma once

#include "hp/status.h"
#include "node/job_client.h"

namespace hp {

/// Shows the job's status on the whole terminal, once a second, with the curves of loss and images/s, until the user
/// presses q or the job ends. Blocks. Ctrl-C ends the process, with the terminal as it was before.
/// @return ok: the user has seen enough; kInvalidArgument: standard output is no terminal; else why the job does not
/// answer any more.
Status WatchJob(JobClient* client);

}  // namespace hp
