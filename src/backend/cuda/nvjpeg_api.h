#pragma once

#include "hp/status.h"

#include <cuda_runtime.h>
#include <library_types.h>

#include <cstddef>

// What we use of nvJPEG, declared here: neither the CUDA toolkit nor Debian need have its header. Where one is found,
// nvjpeg_api_test.cc compares it with this.
// Source: NVIDIA, "nvJPEG", sections "nvJPEG Type Declarations" and "nvJPEG API Reference"
// (docs.nvidia.com/cuda/nvjpeg).
namespace hp {

/// nvjpegHandle_t and nvjpegJpegState_t.
using NvjpegHandle = struct NvjpegHandleOpaque*;
using NvjpegState = struct NvjpegStateOpaque*;

/// nvjpegStatus_t.
enum class NvjpegResult : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidParameter = 2,
  kBadJpeg = 3,
  kJpegNotSupported = 4,
  kAllocatorFailure = 5,
  kExecutionFailed = 6,
  kArchMismatch = 7,
  kInternalError = 8,
  kImplementationNotSupported = 9,
  kIncompleteBitstream = 10,
};

/// Of nvjpegBackend_t: Huffman codes of large batches on the GPU, others on the host; all else by kernels.
constexpr int kNvjpegGpuHybrid = 2;
/// Of nvjpegOutputFormat_t: interleaved channels B, G, R.
constexpr int kNvjpegBgrInterleaved = 6;
/// Of the flags of nvjpegCreateEx: chroma of fewer samples is interpolated, as libjpeg does, not repeated.
constexpr unsigned kNvjpegInterpolate = 1 << 5;
constexpr int kNvjpegMaxComponents = 4;

/// nvjpegImage_t: planes in the GPU's memory, with the bytes from one row to the next; an interleaved image is in the
/// first one.
struct NvjpegImage {
  unsigned char* channel[kNvjpegMaxComponents];
  size_t pitch[kNvjpegMaxComponents];
};

/// The functions of libnvjpeg that we call, found in the library when a job first asks for it.
struct NvjpegApi {
  NvjpegResult (*get_property)(libraryPropertyType type, int* value) = nullptr;  ///< nvjpegGetProperty: its version
  /// nvjpegCreateEx. @param allocators null: the library's own, cudaMalloc and cudaHostAlloc.
  NvjpegResult (*create)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                         NvjpegHandle* handle) = nullptr;
  NvjpegResult (*destroy)(NvjpegHandle handle) = nullptr;                           ///< nvjpegDestroy
  NvjpegResult (*create_state)(NvjpegHandle handle, NvjpegState* state) = nullptr;  ///< nvjpegJpegStateCreate
  NvjpegResult (*destroy_state)(NvjpegState state) = nullptr;                       ///< nvjpegJpegStateDestroy
  /// nvjpegDecodeBatchedInitialize: before batches of another size. @param max_cpu_threads is no longer used.
  NvjpegResult (*begin_batches)(NvjpegHandle handle, NvjpegState state, int batch_size, int max_cpu_threads,
                                int output_format) = nullptr;
  /// nvjpegDecodeBatched.
  NvjpegResult (*decode_batch)(NvjpegHandle handle, NvjpegState state, const unsigned char* const* data,
                               const size_t* lengths, NvjpegImage* images, cudaStream_t stream) = nullptr;
  /// nvjpegDecode: of one image, by itself.
  NvjpegResult (*decode)(NvjpegHandle handle, NvjpegState state, const unsigned char* data, size_t length,
                         int output_format, NvjpegImage* image, cudaStream_t stream) = nullptr;
};

/// @return the library's functions, for the whole life of the process; kFailedPrecondition: the library is missing
/// here, or another version; the message says what to do. Any thread.
StatusOr<const NvjpegApi*> LoadNvjpeg();

/// Ok; kDataLoss, for what the JPEG is to blame for; or kInternal. With nvJPEG's name of the error.
/// @param what the operation, for the message.
Status NvjpegStatus(NvjpegResult result, const char* what);
/// The same of a JPEG that was decoded by itself on a device that works: damage that shows only in decoding, such as
/// that of a Huffman table, is told as a failed execution or an internal error.
Status NvjpegStatusOfImage(NvjpegResult result, const char* what);

}  // namespace hp
