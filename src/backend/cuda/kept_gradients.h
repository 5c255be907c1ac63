#pragma once

#include "backend/cuda/gpu.h"
#include "backend/update.h"

#include <cstdint>
#include <vector>

namespace hp::cuda {

/// A gradient of a parameter as a library has written it, until it becomes that of the values.
struct KeptGradient {
  ValueCopy from;  ///< in memory that nobody else writes to before Finish
  int64_t n = 0;   ///< values
  bool add = false;
  float* to = nullptr;  ///< [n]: it is set, or added to
};

/// Gradients of weights that are in the library's order and element type, kept until somebody wants them in Caffe's:
/// one launch takes many. Executor thread.
class KeptGradients {
 public:
  /// @param stream of the compute queue.
  explicit KeptGradients(const GpuStream& stream) : stream_(stream) {}

  /// Before `memory` is overwritten, in which a gradient may be kept.
  void BeforeWriting(const void* memory);
  void Keep(const KeptGradient& gradient) { kept_.push_back(gradient); }
  /// Backend::FinishGradients.
  void Finish();

 private:
  const GpuStream stream_;
  std::vector<KeptGradient> kept_;
};

}  // namespace hp::cuda
