#pragma once

#include "backend/backend.h"

#include "glog/logging.h"

#include <cstdint>

namespace hp {

/// The columns of a shard's logits: one for each of its classes, or for those of a sample (ClassSlice::room).
class ShardColumns {
 public:
  ShardColumns(const ClassSlice& classes, const OpArgs& args)
      : begin_(classes.here.begin), all_(classes.here.size()), sample_(args.sample) {
    CHECK_EQ(classes.room > 0, sample_ != nullptr) << "a sample of the classes";
  }

  /// How many are logits.
  int64_t count() const { return sample_ == nullptr ? all_ : sample_->columns(); }
  /// That of a class of all shards; -1: it is of another shard.
  int64_t Of(int64_t label) const {
    const int64_t here = label - begin_;
    if (label < begin_ || here >= all_) return -1;
    return sample_ == nullptr ? here : sample_->ColumnOf(here);
  }

 private:
  const int64_t begin_, all_;
  const BatchSample* const sample_;
};

/// The block (Backend::JoinedStatistics) of a class of all shards; -1: it is of another shard.
inline int64_t BlockOf(const ClassSlice& classes, int64_t label) {
  const bool here = label >= classes.here.begin && label < classes.here.end;
  return here ? (label - classes.here.begin) / classes.room : -1;
}

}  // namespace hp
