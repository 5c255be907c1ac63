#pragma once

#include "transport/connect/progress.h"

#include <memory>
#include <string>

namespace hp {

/// How much a failure says about its cause, least first. One failure shows up in several places; what is reported is
/// the first of those with the greatest value.
enum class Cause {
  kSymptom,  ///< follows from an earlier failure: a flushed request, a queue pair in error, a peer that went away
  kHint,     ///< says what happened, not to which request: most events of the device, the peer's reason
  kError,    ///< a completion that says which request failed and why, or a broken rule of the protocol
};

/// The owner of a completion queue and its queue pairs. Their verbs contexts (cq_context, qp_context) point to it, so
/// that events of the device reach it: a completion event has it watched (ProgressTask), an asynchronous error calls
/// OnAsyncError. It must be held by shared_ptr as long as they exist. Progress thread.
class CqUser : public ProgressTask, public std::enable_shared_from_this<CqUser> {
 public:
  /// The device reported an error that has no completion. @param what in words, with the queue pair or device.
  virtual void OnAsyncError(const std::string& what, Cause cause) = 0;
};

}  // namespace hp
