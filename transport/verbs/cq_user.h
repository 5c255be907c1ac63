#pragma once

#include "transport/connect/progress.h"

#include <memory>
#include <string>

namespace hp {

/// How much a failure tells of what brought it about.
enum class Cause {
  kSymptom,  ///< something failed earlier: a flushed request, a queue pair found in error, a peer that went away
  kHint,     ///< what happened, and not to which request: most events of the device, the peer's reason
  kError,    ///< a completion that says which request and why, or a broken rule
};

/// Who owns a completion queue and queue pairs: what their contexts point to, so that an event of the device finds its
/// way. Progress thread.
class CqUser : public ProgressTask, public std::enable_shared_from_this<CqUser> {
 public:
  /// The device reported an error that shows in no completion.
  virtual void OnAsyncError(const std::string& what, Cause cause) = 0;
};

}  // namespace hp
