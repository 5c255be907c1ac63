#pragma once

#include "hp/status.h"
#include "tensor/tensor.h"

#include <dnnl.hpp>

#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace hp::onednn {

/// Whether oneDNN uses AVX-512 on this host.
bool HasAvx512();

/// Channels in one block of the layout in which convolutions are fastest on this host: 16 with AVX-512, else 8.
int64_t NativeBlock();

/// oneDNN's version and the instructions that it uses on this host: "oneDNN 2.6.3 avx2".
std::string DescribeInstructions();

/// Whether this host has instructions for products of bfloat16: AVX512_BF16 or AMX.
bool MultipliesBFloat16();
/// Whether it has those of AMX, and oneDNN uses them.
bool HasAmx();

/// float32 or bfloat16.
dnnl::memory::data_type TypeOf(ElementType element);

/// oneDNN's description of a tensor [N, C, H, W] with `channel_block`, which divides C.
dnnl::memory::desc Describe(const Shape& shape, int64_t channel_block, dnnl::memory::data_type type);
/// The same, always named NHWC: with one channel it is also NCHW and with 16 also nChw16c, but oneDNN picks its kernels
/// by the name.
dnnl::memory::desc DescribeNhwc(const Shape& shape, dnnl::memory::data_type type);

/// Whether a primitive is oneDNN's plain loops, by its name: "ref:any", or "gemm:ref:any" where it is a product by
/// such.
template <typename PrimitiveDesc>
bool IsReference(const PrimitiveDesc& pd) {
  return std::string_view(pd.impl_info_str()).find("ref:") != std::string_view::npos;
}

/// A name for element type and memory format of `desc` ("256x48x5x5 s... 16i16o"): equal for equal ones and sizes, as
/// PackedParams wants.
std::string FormatName(const dnnl::memory::desc& desc);

/// Calls `work`, which runs primitives. dnnl::error that says out of memory becomes std::bad_alloc, for which the
/// thread that computes is prepared (OrOutOfMemory); all others pass.
template <typename Work>
auto OrBadAlloc(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw;
  }
}

/// The engine and the stream of one op; executor thread. Ops of different executors share nothing but oneDNN's own
/// primitive cache.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  /// A view of `data`, which the caller owns; const is dropped because oneDNN has no const memory.
  dnnl::memory Memory(const dnnl::memory::desc& desc, const void* data) const {
    return OrBadAlloc([&] { return dnnl::memory(desc, engine, const_cast<void*>(data)); });
  }
  /// Done on return.
  void Execute(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments) const {
    OrBadAlloc([&] { primitive.execute(stream, arguments); });
  }
};

/// A copy of a tensor from one format to another, made once and run many times.
class Reorder {
 public:
  Reorder() = default;  ///< needed() is false
  /// @param add add to the target instead of overwriting it. Throws dnnl::error.
  Reorder(const Context& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add = false);
  /// Whether the formats differ; a plain copy between equal ones must not be run.
  bool needed() const { return needed_; }
  /// By all threads of the team; done on return. `from` and `to` do not overlap.
  void Run(Context* context, const void* from, void* to) const;

 private:
  bool needed_ = false;
  dnnl::memory::desc from_, to_;
  dnnl::primitive primitive_;
};

/// Calls `make`, which builds primitives. @return kInternal with oneDNN's message, prefixed by `what`, if it throws
/// dnnl::error; kResourceExhausted if that says out of memory.
template <typename Make>
Status Guard(const char* what, const Make& make) {
  try {
    make();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) return ResourceExhausted("out of memory: oneDNN, %s", what);
    return InternalError("%s: oneDNN error: %s (status %d)", what, error.what(), static_cast<int>(error.status));
  }
  return OkStatus();
}

/// Attributes of a primitive that takes its scratchpad from the caller (DNNL_ARG_SCRATCHPAD, in OpArgs::scratch)
/// instead of allocating it.
dnnl::primitive_attr UserScratchpad();

}  // namespace hp::onednn
