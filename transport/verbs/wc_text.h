#pragma once

#include "transport/verbs/verbs.h"

#include <string>

namespace hp {

/// What a completion's status means, in words.
const char* WcStatusText(ibv_wc_status status);
/// What an asynchronous event means.
const char* AsyncEventText(ibv_event_type type);
/// What an event of librdmacm means. @param status its status: an error number, or a reason of the peer's.
std::string CmEventText(rdma_cm_event_type type, int status);

}  // namespace hp
