#pragma once

#include "transport/verbs/verbs.h"

namespace hp {

/// What a completion's status means, in words.
const char* WcStatusText(ibv_wc_status status);
/// What an asynchronous event means.
const char* AsyncEventText(ibv_event_type type);

}  // namespace hp
