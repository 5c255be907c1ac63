#include "backend/cuda/cublas_api.h"
#include "backend/cuda/cublas_gemm.h"
#include "backend/cuda/cudnn_convolution.h"
#include "backend/cuda/library.h"

#include "glog/logging.h"
#include <cuda_runtime.h>

namespace hp {
namespace {

/// The part of a GPU's memory that a convolution may want for itself. VGG-16's second one, batch 64, runs on A100's
/// tensor cores only with copies of its input and output, 1.6 GB.
constexpr size_t kWorkspaceShare = 16;

struct DestroyCublas {
  const CublasApi* api = nullptr;
  void operator()(cublasLtHandle_t handle) const { api->destroy(handle); }
};
struct DestroyCudnn {
  void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
};

class NvidiaLibrary final : public GpuLibrary {
 public:
  NvidiaLibrary(Gpu* gpu, GpuMath math) : gpu_(gpu), math_(math) {}

  Status Open() {
    HP_RETURN_IF_ERROR(Use());
    cublasLtHandle_t cublas = nullptr;
    HP_ASSIGN_OR_RETURN(const CublasApi* api, LoadCublas());
    HP_RETURN_IF_ERROR(CublasStatus(api->create(&cublas), "handle for " + gpu_->name()));
    cublas_ = {cublas, DestroyCublas{api}};
    cudnnHandle_t cudnn = nullptr;
    HP_RETURN_IF_ERROR(CudnnStatus(cudnnCreate(&cudnn), "handle for " + gpu_->name()));
    cudnn_.reset(cudnn);
    const auto stream = static_cast<cudaStream_t>(gpu_->stream(Device::kCompute).cuda);
    return CudnnStatus(cudnnSetStream(cudnn, stream), "stream of " + gpu_->name());
  }

  ElementType element() const override { return ElementOf(math_); }
  int64_t channel_pack() const override { return ChannelPack(math_); }
  StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) override {
    HP_RETURN_IF_ERROR(Use());
    return MakeCublasGemm(gpu_, cublas_.get(), math_, desc);
  }
  StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) override {
    HP_RETURN_IF_ERROR(Use());
    const CudnnTarget target = {.handle = cudnn_.get(),
                                .device = nullptr,
                                .math = math_,
                                .most_workspace_bytes = gpu_->info().memory_bytes / kWorkspaceShare};
    return MakeCudnnConvolution(gpu_, target, desc, in);
  }

 private:
  /// Handles and plans belong to the device that is the thread's current one when they are made.
  Status Use() const {
    const cudaError_t error = cudaSetDevice(gpu_->info().index);
    if (error == cudaSuccess) return OkStatus();
    return FailedPrecondition("%s: %s", gpu_->name().c_str(), cudaGetErrorString(error));
  }

  Gpu* const gpu_;
  const GpuMath math_;
  std::unique_ptr<cublasLtContext, DestroyCublas> cublas_;
  std::unique_ptr<cudnnContext, DestroyCudnn> cudnn_;
};

}  // namespace

StatusOr<std::unique_ptr<GpuLibrary>> MakeGpuLibrary(Gpu* gpu, GpuMath math) {
  CHECK(gpu->stream(Device::kCompute).host == nullptr) << gpu->name() << " is not an NVIDIA GPU";
  auto library = std::make_unique<NvidiaLibrary>(gpu, math);
  HP_RETURN_IF_ERROR(library->Open());
  return std::unique_ptr<GpuLibrary>(std::move(library));
}

}  // namespace hp
