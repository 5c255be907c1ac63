#pragma once

#include "transport/verbs/verbs.h"

#include <string>

namespace hp {

// libibverbs' and librdmacm's codes in words, for messages.

/// What a completion's status means, and often what to look at; a constant.
const char* WcStatusText(ibv_wc_status status);
/// What an asynchronous event of a device means; a constant.
const char* AsyncEventText(ibv_event_type type);
/// What an event of librdmacm means. @param status rdma_cm_event::status: a negative errno, or the peer's reason (> 0).
std::string CmEventText(rdma_cm_event_type type, int status);

}  // namespace hp
