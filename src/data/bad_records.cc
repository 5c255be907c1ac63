#include "data/bad_records.h"

#include "base/format.h"

#include <glog/logging.h>

namespace hp {

bool MayBeSkipped(const Status& status) {
  return status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kInvalidArgument;
}

Status BadRecords::Skip(int64_t record, const Status& why) {
  if (most_ == 0 || !MayBeSkipped(why)) return why;
  const MutexLock lock(&mutex_);
  if (records_.contains(record)) return OkStatus();
  const auto before = static_cast<int64_t>(records_.size());
  if (before == most_) {
    return Status(why.code(), why.message() + Format("; %lld other bad record(s) were skipped, no more may be",
                                                     static_cast<long long>(before)));
  }
  records_.insert(record);
  LOG(WARNING) << "skipped bad record " << before + 1 << " of at most " << most_ << ": " << why.message();
  return OkStatus();
}

}  // namespace hp
