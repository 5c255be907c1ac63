#pragma once

#include "hp/status.h"
#include "tensor/tensor.h"

#include <dnnl.hpp>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

namespace hp::onednn {

/// Channels in one block of the layout that this host's convolutions like best: 16 with AVX-512, else 8.
int64_t NativeBlock();

/// oneDNN's description of a rank-4 tensor of shape `shape` with `channel_block`, which divides the channels.
dnnl::memory::desc Describe(const Shape& shape, int64_t channel_block);
/// NHWC under that name: one channel is also NCHW, 16 are also nChw16c, but oneDNN picks its kernels by the name.
dnnl::memory::desc DescribeNhwc(const Shape& shape);

/// A name for the memory format of `desc` ("256x48x5x5 s... 16i16o"): equal for equal formats and sizes, as
/// PackedParams wants.
std::string FormatName(const dnnl::memory::desc& desc);

/// The engine and the stream of one op. Ops of different executors share nothing but oneDNN's own primitive cache.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  dnnl::memory Memory(const dnnl::memory::desc& desc, const void* data) const {
    return {desc, engine, const_cast<void*>(data)};
  }
};

/// A copy between two formats, optionally added to what the target holds.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const Context& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add = false);
  /// Whether the formats differ; a plain copy between equal ones must not be run.
  bool needed() const { return needed_; }
  void Run(Context* context, const void* from, void* to) const;

 private:
  bool needed_ = false;
  dnnl::memory::desc from_, to_;
  dnnl::primitive primitive_;
};

/// Runs `make`, which builds primitives; oneDNN's exception becomes a Status that starts with `what`.
template <typename Make>
Status Guard(const char* what, const Make& make) {
  try {
    make();
  } catch (const dnnl::error& error) {
    return InternalError("%s: oneDNN says \"%s\" (status %d)", what, error.what(), static_cast<int>(error.status));
  }
  return OkStatus();
}

/// Attributes of a primitive that takes its scratchpad from OpArgs::scratch.
dnnl::primitive_attr UserScratchpad();

}  // namespace hp::onednn
