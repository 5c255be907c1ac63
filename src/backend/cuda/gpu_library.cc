#include "backend/cuda/cublas_api.h"
#include "backend/cuda/cublas_gemm.h"
#include "backend/cuda/cudnn_convolution.h"
#include "backend/cuda/cudnn_timer.h"
#include "backend/cuda/nvjpeg_decoder.h"
#include "backend/cuda/timed_library.h"
#include "base/format.h"

#include "glog/logging.h"
#include <cuda_runtime.h>

#include <optional>

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

/// "cuDNN 9.10.2". The version of the library that is loaded, which need not be that of the headers.
std::string CudnnName() {
  const size_t version = cudnnGetVersion();
  return Format("cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

class NvidiaLibrary final : public GpuLibrary {
 public:
  NvidiaLibrary(Gpu* gpu, GpuMath math, EngineChoices* engines) : gpu_(gpu), math_(math) {
    if (engines != nullptr) chooser_.emplace(engines, gpu->info().name, CudnnName());
  }

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
    CudnnTarget target = {.handle = cudnn_.get(),
                          .device = nullptr,
                          .math = math_,
                          .most_workspace_bytes = gpu_->info().memory_bytes / kWorkspaceShare};
    if (chooser_) {
      target.chooser = &*chooser_;
      target.time = [gpu = gpu_, cudnn = cudnn_.get()](const CudnnPlan& plan) {
        return TimeCudnnPlan(gpu, cudnn, plan);
      };
    }
    return MakeCudnnConvolution(gpu_, target, desc, in);
  }
  StatusOr<std::unique_ptr<GpuJpegDecoder>> JpegDecoder() override {
    HP_ASSIGN_OR_RETURN(const NvjpegApi* api, LoadNvjpeg());
    return MakeNvjpegDecoder(gpu_, *api);
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
  std::optional<EngineChooser> chooser_;  // nothing: the engines that cuDNN puts first
  std::unique_ptr<cublasLtContext, DestroyCublas> cublas_;
  std::unique_ptr<cudnnContext, DestroyCudnn> cudnn_;
};

/// @param engines null: none is timed.
StatusOr<std::unique_ptr<GpuLibrary>> OpenLibrary(Gpu* gpu, GpuMath math, EngineChoices* engines) {
  CHECK(gpu->stream(Device::kCompute).host == nullptr) << gpu->name() << " is not an NVIDIA GPU";
  auto library = std::make_unique<NvidiaLibrary>(gpu, math, engines);
  HP_RETURN_IF_ERROR(library->Open());
  return std::unique_ptr<GpuLibrary>(std::move(library));
}

}  // namespace

StatusOr<std::unique_ptr<GpuLibrary>> MakeGpuLibrary(Gpu* gpu, GpuMath math) { return OpenLibrary(gpu, math, nullptr); }

StatusOr<std::unique_ptr<GpuLibrary>> MakeTimedGpuLibrary(Gpu* gpu, GpuMath math, EngineChoices* engines) {
  return OpenLibrary(gpu, math, engines);
}

}  // namespace hp
