#include "test/support/host_gpu_library.h"

#include "backend/window.h"

#include "glog/logging.h"

#include <cstring>
#include <vector>

namespace hp::test {
namespace {

/// What each call asks for and spoils, as libraries do.
constexpr size_t kWorkspaceBytes = 192;

/// Work in the compute stream that begins by spoiling its workspace.
template <typename Work>
void Enqueue(Gpu* gpu, std::byte* workspace, const Work& work) {
  CHECK(workspace != nullptr && reinterpret_cast<uintptr_t>(workspace) % 64 == 0) << "workspace " << workspace;
  gpu->stream(Device::kCompute).host->Enqueue([=] {
    std::memset(workspace, 0xFF, kWorkspaceBytes);
    work();
  });
}

class HostGemm : public GpuGemm {
 public:
  HostGemm(Gpu* gpu, const GpuGemmDesc& desc) : gpu_(gpu), desc_(desc) {}
  size_t workspace_bytes() const override { return kWorkspaceBytes; }

  void Run(const float* a, const float* b, const float* bias, bool add, float* c, std::byte* workspace) override {
    CHECK((bias != nullptr) == desc_.bias);
    Enqueue(gpu_, workspace, [desc = desc_, a, b, bias, add, c] { Compute(desc, a, b, bias, add, c); });
  }

 private:
  static void Compute(const GpuGemmDesc& d, const float* a, const float* b, const float* bias, bool add, float* c) {
    std::vector<double> row(d.n);
    const int64_t b_row = d.transpose_b ? 1 : d.b_stride, b_column = d.transpose_b ? d.b_stride : 1;
    for (int64_t i = 0; i < d.m; ++i) {
      for (int64_t j = 0; j < d.n; ++j) row[j] = bias == nullptr ? 0 : bias[j];
      for (int64_t l = 0; l < d.k; ++l) {
        const double factor = d.transpose_a ? a[l * d.a_stride + i] : a[i * d.a_stride + l];
        for (int64_t j = 0; j < d.n; ++j) row[j] += factor * b[l * b_row + j * b_column];
      }
      float* to = c + i * d.c_stride;
      for (int64_t j = 0; j < d.n; ++j) to[j] = static_cast<float>(add ? to[j] + row[j] : row[j]);
    }
  }

  Gpu* const gpu_;
  const GpuGemmDesc desc_;
};

/// The loops of a convolution, and its three products over them.
class Taps {
 public:
  Taps(const ConvolutionDesc& desc, const Shape& in)
      : d_(desc),
        in_(in),
        height_(ConvolvedSize(in[2], desc.kernel_h, desc.stride_h, desc.pad_h, desc.dilation_h)),
        width_(ConvolvedSize(in[3], desc.kernel_w, desc.stride_w, desc.pad_w, desc.dilation_w)),
        channels_(in[1] / desc.group),
        outputs_(desc.num_output / desc.group) {}

  int64_t in_count() const { return in_.count(); }
  int64_t out_count() const { return in_[0] * height_ * width_ * d_.num_output; }
  int64_t weights_count() const { return d_.num_output * d_.kernel_h * d_.kernel_w * channels_; }
  int64_t num_output() const { return d_.num_output; }

  /// visit(index in x, index in y, index in weights) for each product of the sum.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (int64_t place = 0; place < in_[0] * height_ * width_; ++place) {
      const int64_t n = place / (height_ * width_), y = place / width_ % height_, x = place % width_;
      for (int64_t kh = 0; kh < d_.kernel_h; ++kh) {
        for (int64_t kw = 0; kw < d_.kernel_w; ++kw) {
          const int64_t h = y * d_.stride_h - d_.pad_h + kh * d_.dilation_h;
          const int64_t w = x * d_.stride_w - d_.pad_w + kw * d_.dilation_w;
          if (h < 0 || w < 0 || h >= in_[2] || w >= in_[3]) continue;
          ForChannels((n * in_[2] + h) * in_[3] + w, place, kh * d_.kernel_w + kw, visit);
        }
      }
    }
  }

 private:
  template <typename Visit>
  void ForChannels(int64_t pixel, int64_t place, int64_t tap, const Visit& visit) const {
    for (int64_t o = 0; o < d_.num_output; ++o) {
      const int64_t x = pixel * in_[1] + o / outputs_ * channels_;
      const int64_t weight = (o * d_.kernel_h * d_.kernel_w + tap) * channels_;
      for (int64_t c = 0; c < channels_; ++c) visit(x + c, place * d_.num_output + o, weight + c);
    }
  }

  const ConvolutionDesc d_;
  const Shape in_;
  const int64_t height_, width_, channels_, outputs_;
};

class HostConvolution : public GpuConvolution {
 public:
  HostConvolution(Gpu* gpu, const ConvolutionDesc& desc, const Shape& in) : gpu_(gpu), taps_(desc, in) {}
  size_t workspace_bytes() const override { return kWorkspaceBytes; }

  void Forward(const float* x, const float* weights, const float* bias, float* y, std::byte* workspace) override {
    Enqueue(gpu_, workspace, [taps = taps_, x, weights, bias, y] {
      std::vector<double> sums(taps.out_count());
      for (size_t i = 0; i < sums.size() && bias != nullptr; ++i) sums[i] = bias[i % taps.num_output()];
      taps.ForEach([&](int64_t i, int64_t o, int64_t w) { sums[o] += static_cast<double>(x[i]) * weights[w]; });
      Store(sums, y);
    });
  }
  void BackwardInput(const float* dy, const float* weights, float* dx, std::byte* workspace) override {
    Enqueue(gpu_, workspace, [taps = taps_, dy, weights, dx] {
      std::vector<double> sums(taps.in_count());
      taps.ForEach([&](int64_t i, int64_t o, int64_t w) { sums[i] += static_cast<double>(dy[o]) * weights[w]; });
      Store(sums, dx);
    });
  }
  void BackwardWeights(const float* x, const float* dy, float* d_weights, std::byte* workspace) override {
    Enqueue(gpu_, workspace, [taps = taps_, x, dy, d_weights] {
      std::vector<double> sums(taps.weights_count());
      taps.ForEach([&](int64_t i, int64_t o, int64_t w) { sums[w] += static_cast<double>(x[i]) * dy[o]; });
      Store(sums, d_weights);
    });
  }

 private:
  static void Store(const std::vector<double>& sums, float* to) {
    for (double sum : sums) *to++ = static_cast<float>(sum);
  }

  Gpu* const gpu_;
  const Taps taps_;
};

class HostGpuLibrary : public GpuLibrary {
 public:
  explicit HostGpuLibrary(Gpu* gpu) : gpu_(gpu) {}
  StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) override {
    return std::unique_ptr<GpuGemm>(std::make_unique<HostGemm>(gpu_, desc));
  }
  StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) override {
    return std::unique_ptr<GpuConvolution>(std::make_unique<HostConvolution>(gpu_, desc, in));
  }

 private:
  Gpu* const gpu_;
};

}  // namespace

std::unique_ptr<GpuLibrary> MakeHostGpuLibrary(Gpu* gpu) { return std::make_unique<HostGpuLibrary>(gpu); }

}  // namespace hp::test
