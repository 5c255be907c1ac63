#pragma once

#include "base/mutex.h"
#include "hp/status.h"

#include <cstdint>
#include <set>

namespace hp {

/// Whether a record with this error may be skipped: it is damaged, missing, or of another shape than the others. What
/// concerns more than one record, such as a database that was replaced, may not. Any thread.
bool MayBeSkipped(const Status& status);

/// Counts records that cannot be used, each once, and names them in the log. Any thread.
class BadRecords {
 public:
  /// @param most that may be skipped; 0: none.
  explicit BadRecords(int64_t most) : most_(most) {}

  /// Whether to go on without `record`. @param why not ok, and names it.
  /// @return ok: it counts among the `most`; else `why`, with the number of those before it.
  Status Skip(int64_t record, const Status& why) HP_EXCLUDES(mutex_);

 private:
  const int64_t most_;
  Mutex mutex_;
  std::set<int64_t> records_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
