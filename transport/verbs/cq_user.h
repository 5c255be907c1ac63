#pragma once

#include "transport/tcp/progress.h"

#include <memory>
#include <string>

namespace hp {

/// Who owns a completion queue and queue pairs: what their contexts point to, so that an event of the device finds its
/// way. Progress thread.
class CqUser : public ProgressTask, public std::enable_shared_from_this<CqUser> {
 public:
  /// The device reported an error that shows in no completion.
  virtual void OnAsyncError(const std::string& what) = 0;
};

}  // namespace hp
