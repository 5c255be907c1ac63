#pragma once

#include "checkpoint/weights.h"
#include "hp/status.h"

#include <cstdint>
#include <map>

namespace hp {

class PullChunk;

/// The client's end of PullServer: puts the chunks of one model together. A node that lies costs what it sends, up to a
/// bound, and nothing more: memory grows with the bytes that have come, whatever dims they claim. One thread at a time.
class PulledBlobs {
 public:
  /// @param most_bytes of all values together.
  explicit PulledBlobs(int64_t most_bytes) : left_(most_bytes) {}

  /// Chunks of a blob come in order, without gaps, all with its shape.
  /// @return kDataLoss: this one does not follow on what came, or its shape is no tensor's; kResourceExhausted: the
  /// bound is reached. Nothing was taken then.
  Status Take(const PullChunk& chunk);
  /// The blobs, which are empty here afterwards.
  /// @return kDataLoss: one is not complete.
  StatusOr<std::map<BlobKey, Blob>> Finish();

 private:
  int64_t left_;
  std::map<BlobKey, Blob> blobs_;
};

}  // namespace hp
