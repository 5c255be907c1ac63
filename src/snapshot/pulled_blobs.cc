#include "snapshot/pulled_blobs.h"

#include "base/format.h"
#include "proto/wire.pb.h"

#include <cstring>
#include <utility>
#include <vector>

namespace hp {

Status PulledBlobs::Take(const PullChunk& chunk) {
  const auto refused = [&chunk](const char* why) {
    return DataLoss("the chunk of layer \"%s\" blob %d %s", Printable(chunk.layer()).c_str(), chunk.blob(), why);
  };
  const Shape shape(std::vector<int64_t>(chunk.dim().begin(), chunk.dim().end()));
  if (!shape.InBounds()) return refused("has a shape that no tensor has");
  const auto found = blobs_.find({chunk.layer(), chunk.blob()});
  if (found != blobs_.end() && found->second.shape != shape) return refused("has another shape than the one before it");
  const int64_t taken = found == blobs_.end() ? 0 : static_cast<int64_t>(found->second.data.size());
  const int64_t bytes = static_cast<int64_t>(chunk.data().size());
  const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
  if (count == 0 || bytes % sizeof(float) != 0) return refused("holds no whole values");
  if (chunk.offset() != taken || count > shape.count() - taken)
    return refused("does not follow on what came before it");
  if (bytes > left_) {
    return ResourceExhausted("the weights are larger than this host's memory: layer \"%s\" blob %d does not fit",
                             Printable(chunk.layer()).c_str(), chunk.blob());
  }
  left_ -= bytes;
  Blob& blob = found == blobs_.end() ? blobs_[{chunk.layer(), chunk.blob()}] : found->second;
  blob.shape = shape;
  blob.data.resize(taken + count);
  std::memcpy(blob.data.data() + taken, chunk.data().data(), bytes);
  return OkStatus();
}

StatusOr<std::map<BlobKey, Blob>> PulledBlobs::Finish() {
  for (const auto& [key, blob] : blobs_) {
    if (static_cast<int64_t>(blob.data.size()) == blob.shape.count()) continue;
    return DataLoss("the weights ended within layer \"%s\" blob %d", Printable(key.first).c_str(), key.second);
  }
  return std::exchange(blobs_, {});
}

}  // namespace hp
