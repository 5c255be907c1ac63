#pragma once

#include "backend/backend.h"
#include "backend/cuda/gpu.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace hp {

/// A matrix product C [m, n] = A B, or C += A B, all row-major. A and B are of the library's element type, C and bias
/// are float32. A is stored as [m, k], or as [k, m] if transpose_a; B as [k, n], or as [n, k] if transpose_b.
struct GpuGemmDesc {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;  ///< elements from one row to the next
  bool bias = false;                                 ///< bias [n] is added to each row of C
};

/// A matrix product of fixed sizes. Run changes no state. The library and the GPU must outlive it.
class GpuGemm {
 public:
  virtual ~GpuGemm() = default;
  virtual size_t workspace_bytes() const = 0;  ///< that Run needs
  /// Puts the product into the compute stream; all memory is the GPU's. Factors may begin at any element.
  /// @param bias [n]; null unless the desc says so. @param add C += A B instead of C = A B.
  /// @param workspace [workspace_bytes()], contents lost. A failure shows up in Device::Wait (Gpu::Fail).
  virtual void Run(const void* a, const void* b, const float* bias, bool add, float* c, std::byte* workspace) = 0;
};

/// A convolution of fixed sizes, in the layout that it prefers. x, y, the weights, the bias [O] and their gradients are
/// of the library's element type, in the GPU's memory, and aligned to 16 bytes. Calls put work into the compute stream,
/// overwrite their result and change no state. The library and the GPU must outlive it.
class GpuConvolution {
 public:
  /// Of all that the calls read and write, in bytes.
  static constexpr size_t kAlignment = 16;

  virtual ~GpuConvolution() = default;
  /// Whether x and y are NHWC and the weights [O, kH, kW, C / group]. Else all are as Caffe has them: x and y dense
  /// NCHW, the weights [O, C / group, kH, kW]; their type is float32 then.
  virtual bool nhwc() const = 0;
  /// Above 1, only with nhwc(): x and y lie in so many groups of channels, each NHWC, of all images:
  /// [groups][N, H, W, C / groups]. That is the desc's number of groups.
  virtual int64_t groups() const = 0;
  /// That any of the three calls needs; its contents are lost.
  virtual size_t workspace_bytes() const = 0;
  /// Asks for the ReLU of what Forward writes, from now on; before the first call. workspace_bytes() may change. NaNs
  /// are handed on. @return false: it would cost as much as a pass of its own, and nothing has changed.
  virtual bool TakeRelu() = 0;
  /// @param bias null: none.
  virtual void Forward(const void* x, const void* weights, const void* bias, void* y, std::byte* workspace) = 0;
  /// Only if the desc has input_gradient.
  virtual void BackwardInput(const void* dy, const void* weights, void* dx, std::byte* workspace) = 0;
  virtual void BackwardWeights(const void* x, const void* dy, void* d_weights, std::byte* workspace) = 0;
};

/// A JPEG in the host's memory, and where its pixels go in the GPU's.
struct GpuJpeg {
  std::span<const std::byte> bytes;  ///< plain (data/plain_jpeg.h)
  int64_t height = 0, width = 0;     ///< as its header says
  std::byte* pixels = nullptr;       ///< [height, width, 3], channels B, G, R
};

/// Decodes JPEGs, always to the same pixels, whatever else is decoded with them. One thread at a time, that which feeds
/// the stream of Device::kCopyIn. The library and the GPU must outlive it.
class GpuJpegDecoder {
 public:
  virtual ~GpuJpegDecoder() = default;
  /// Puts the decoding of all `jpegs` into the stream of kCopyIn. Waits for what the call before put there. The bytes
  /// must stay unmodified until it is done; the span may be freed.
  /// @param refused which could not be decoded, the first of them; jpegs.size(): it is not known.
  /// @return kDataLoss: one can't be decoded; kInternal: the device failed.
  virtual Status Decode(std::span<const GpuJpeg> jpegs, size_t* refused) = 0;
};

/// Matrix products and convolutions on the compute stream of one GPU, and JPEGs on that of copies in: the one seam to
/// cuBLASLt, cuDNN and nvJPEG (MakeGpuLibrary); tests have one that computes on the host. One thread at a time.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  /// The element type of the products' factors.
  virtual ElementType element() const = 0;
  /// Channels of 16 bytes, if engines read so many of a pixel at once. A convolution of one group that has fewer had
  /// better be asked for with as many, the others being zeros: the library would make such a copy of its input in a
  /// workspace, for each call again. 1: that gains nothing.
  virtual int64_t channel_pack() const = 0;
  /// @return kFailedPrecondition: the library cannot compute it.
  virtual StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) = 0;
  /// @param in the input's shape [N, C, H, W]. Errors as Gemm's.
  virtual StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) = 0;
  /// @return kFailedPrecondition: the library for it is missing here, or another version; the message says what to do.
  virtual StatusOr<std::unique_ptr<GpuJpegDecoder>> JpegDecoder() = 0;
};

/// How products are computed (the table's `precision`); sums are float32 in any case.
enum class GpuMath {
  kFloat32,   ///< float32 factors, as on the host
  kTf32,      ///< float32 in memory, rounded to 10 fraction bits in the multiplication
  kBFloat16,  ///< 16 bits in memory, 7 of them fraction
  kFloat16,   ///< 16 bits in memory, 10 of them fraction; magnitudes from 6e-8 to 65504
};

/// The element type of the factors in memory.
inline ElementType ElementOf(GpuMath math) {
  if (math == GpuMath::kBFloat16) return ElementType::kBFloat16;
  return math == GpuMath::kFloat16 ? ElementType::kFloat16 : ElementType::kFloat32;
}

/// The layout of convolutions, as GpuConvolution::nhwc. Tensor cores want NHWC. Engines for float32 want NCHW, and most
/// of cuDNN's plans for it in NHWC transpose all tensors in a workspace.
inline bool PrefersNhwc(GpuMath math) { return math != GpuMath::kFloat32; }

/// GpuLibrary::channel_pack. In TF32 cuDNN copies images of four channels in its workspace as it does those of three.
inline int64_t ChannelPack(GpuMath math) { return ElementOf(math) == ElementType::kFloat32 ? 1 : 8; }

/// cuDNN, cuBLASLt and nvJPEG on `gpu`, a real GPU (CHECK) that must outlive the library.
/// @return kFailedPrecondition: a library can't be initialized.
StatusOr<std::unique_ptr<GpuLibrary>> MakeGpuLibrary(Gpu* gpu, GpuMath math);

}  // namespace hp
