#include "test/support/host_gpu_library.h"

#include "backend/window.h"
#include "test/support/elements.h"

#include "glog/logging.h"

#include <cstring>
#include <initializer_list>
#include <utility>
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
  HostGemm(Gpu* gpu, const GpuGemmDesc& desc, ElementType element) : gpu_(gpu), desc_(desc), element_(element) {}
  size_t workspace_bytes() const override { return kWorkspaceBytes; }

  void Run(const void* a, const void* b, const float* bias, bool add, float* c, std::byte* workspace) override {
    CHECK((bias != nullptr) == desc_.bias);
    Enqueue(gpu_, workspace, [d = desc_, element = element_, a, b, bias, add, c] {
      const auto as_floats = [&](const void* data, int64_t rows, int64_t columns, bool transposed, int64_t stride) {
        if (transposed) std::swap(rows, columns);
        return GetElements(element, data, (rows - 1) * stride + columns);
      };
      Compute(d, as_floats(a, d.m, d.k, d.transpose_a, d.a_stride), as_floats(b, d.k, d.n, d.transpose_b, d.b_stride),
              bias, add, c);
    });
  }

 private:
  static void Compute(const GpuGemmDesc& d, const std::vector<float>& a, const std::vector<float>& b, const float* bias,
                      bool add, float* c) {
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
  const ElementType element_;
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
  HostConvolution(Gpu* gpu, const ConvolutionDesc& desc, const Shape& in, ElementType element)
      : gpu_(gpu), taps_(desc, in), bias_(desc.bias), element_(element) {}
  size_t workspace_bytes() const override { return kWorkspaceBytes; }

  bool TakeRelu() override { return relu_ = bias_; }
  void Forward(const void* x, const void* weights, const void* bias, void* y, std::byte* workspace) override {
    CheckAligned({x, weights, bias, y});
    Enqueue(gpu_, workspace, [element = element_, taps = taps_, relu = relu_, x, weights, bias, y] {
      const std::vector<float> xs = GetElements(element, x, taps.in_count()),
                               ws = GetElements(element, weights, taps.weights_count());
      std::vector<double> sums(taps.out_count());
      if (bias != nullptr) {
        const std::vector<float> bs = GetElements(element, bias, taps.num_output());
        for (size_t i = 0; i < sums.size(); ++i) sums[i] = bs[i % taps.num_output()];
      }
      taps.ForEach([&](int64_t i, int64_t o, int64_t w) { sums[o] += static_cast<double>(xs[i]) * ws[w]; });
      for (double& sum : sums) sum = relu && sum < 0 ? 0 : sum;
      Store(sums, element, y);
    });
  }
  void BackwardInput(const void* dy, const void* weights, void* dx, std::byte* workspace) override {
    CheckAligned({dy, weights, dx});
    Enqueue(gpu_, workspace, [element = element_, taps = taps_, dy, weights, dx] {
      const std::vector<float> dys = GetElements(element, dy, taps.out_count()),
                               ws = GetElements(element, weights, taps.weights_count());
      std::vector<double> sums(taps.in_count());
      taps.ForEach([&](int64_t i, int64_t o, int64_t w) { sums[i] += static_cast<double>(dys[o]) * ws[w]; });
      Store(sums, element, dx);
    });
  }
  void BackwardWeights(const void* x, const void* dy, void* d_weights, std::byte* workspace) override {
    CheckAligned({x, dy, d_weights});
    Enqueue(gpu_, workspace, [element = element_, taps = taps_, x, dy, d_weights] {
      const std::vector<float> xs = GetElements(element, x, taps.in_count()),
                               dys = GetElements(element, dy, taps.out_count());
      std::vector<double> sums(taps.weights_count());
      taps.ForEach([&](int64_t i, int64_t o, int64_t w) { sums[w] += static_cast<double>(xs[i]) * dys[o]; });
      Store(sums, element, d_weights);
    });
  }

 private:
  static void CheckAligned(std::initializer_list<const void*> addresses) {
    for (const void* address : addresses) CHECK_EQ(reinterpret_cast<uintptr_t>(address) % kAlignment, 0U) << address;
  }
  static void Store(const std::vector<double>& sums, ElementType element, void* to) {
    for (size_t i = 0; i < sums.size(); ++i) SetElement(element, static_cast<float>(sums[i]), to, i);
  }

  Gpu* const gpu_;
  const Taps taps_;
  const bool bias_;
  const ElementType element_;
  bool relu_ = false;
};

class HostGpuLibrary : public GpuLibrary {
 public:
  HostGpuLibrary(Gpu* gpu, ElementType element) : gpu_(gpu), element_(element) {}
  ElementType element() const override { return element_; }
  StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) override {
    return std::unique_ptr<GpuGemm>(std::make_unique<HostGemm>(gpu_, desc, element_));
  }
  StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) override {
    return std::unique_ptr<GpuConvolution>(std::make_unique<HostConvolution>(gpu_, desc, in, element_));
  }

 private:
  Gpu* const gpu_;
  const ElementType element_;
};

}  // namespace

std::unique_ptr<GpuLibrary> MakeHostGpuLibrary(Gpu* gpu, ElementType element) {
  return std::make_unique<HostGpuLibrary>(gpu, element);
}

}  // namespace hp::test
