#include "test/support/host_gpu_library.h"

#include "backend/window.h"
#include "test/support/elements.h"
#include "test/support/host_jpeg_decoder.h"

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

/// A tensor in either layout: images of channels of pixels, or outputs of channels of taps. In groups each of them is
/// such a tensor.
class Places {
 public:
  Places(int64_t images, int64_t channels, int64_t pixels, bool nhwc, int64_t groups = 1)
      : count_(images * channels * pixels),
        channels_(channels / groups),
        image_(channels_ * pixels),
        channel_(nhwc ? 1 : pixels),
        pixel_(nhwc ? channels_ : 1),
        group_(images * image_) {}

  int64_t count() const { return count_; }
  int64_t At(int64_t image, int64_t channel, int64_t pixel) const {
    return channel / channels_ * group_ + image * image_ + channel % channels_ * channel_ + pixel * pixel_;
  }
  int64_t ChannelOf(int64_t i) const { return i / group_ * channels_ + i / channel_ % channels_; }

 private:
  int64_t count_, channels_, image_, channel_, pixel_, group_;
};

/// Few groups, whose pixels are multiples of 16 bytes. With cuDNN some sizes more are computed together.
int64_t GroupsOf(const ConvolutionDesc& desc, const Shape& in, GpuMath math) {
  constexpr int64_t kMostGroups = 4;
  const int64_t pack = 16 / static_cast<int64_t>(BytesOf(ElementOf(math)));
  const bool whole_packs = in[1] / desc.group % pack == 0 && desc.num_output / desc.group % pack == 0;
  return PrefersNhwc(math) && desc.group <= kMostGroups && whole_packs ? desc.group : 1;
}

/// The loops of a convolution, and its three products over them.
class Taps {
 public:
  /// @param groups as GpuConvolution::groups.
  Taps(const ConvolutionDesc& desc, const Shape& in, bool nhwc, int64_t groups)
      : d_(desc),
        in_(in),
        height_(ConvolvedSize(in[2], desc.kernel_h, desc.stride_h, desc.pad_h, desc.dilation_h)),
        width_(ConvolvedSize(in[3], desc.kernel_w, desc.stride_w, desc.pad_w, desc.dilation_w)),
        channels_(in[1] / desc.group),
        outputs_(desc.num_output / desc.group),
        x_(in[0], in[1], in[2] * in[3], nhwc, groups),
        y_(in[0], desc.num_output, height_ * width_, nhwc, groups),
        weights_(desc.num_output, channels_, desc.kernel_h * desc.kernel_w, nhwc) {}

  int64_t in_count() const { return x_.count(); }
  int64_t out_count() const { return y_.count(); }
  int64_t weights_count() const { return weights_.count(); }
  int64_t num_output() const { return d_.num_output; }
  /// Of an element of y.
  int64_t OutputOf(int64_t i) const { return y_.ChannelOf(i); }

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
          ForChannels(n, h * in_[3] + w, y * width_ + x, kh * d_.kernel_w + kw, visit);
        }
      }
    }
  }

 private:
  template <typename Visit>
  void ForChannels(int64_t image, int64_t pixel, int64_t place, int64_t tap, const Visit& visit) const {
    for (int64_t o = 0; o < d_.num_output; ++o) {
      const int64_t first = o / outputs_ * channels_;
      for (int64_t c = 0; c < channels_; ++c) {
        visit(x_.At(image, first + c, pixel), y_.At(image, o, place), weights_.At(o, c, tap));
      }
    }
  }

  const ConvolutionDesc d_;
  const Shape in_;
  const int64_t height_, width_, channels_, outputs_;
  const Places x_, y_, weights_;
};

class HostConvolution : public GpuConvolution {
 public:
  HostConvolution(Gpu* gpu, const ConvolutionDesc& desc, const Shape& in, GpuMath math, int64_t groups)
      : gpu_(gpu),
        nhwc_(PrefersNhwc(math)),
        groups_(groups),
        taps_(desc, in, nhwc_, groups_),
        bias_(desc.bias),
        element_(ElementOf(math)) {}
  bool nhwc() const override { return nhwc_; }
  int64_t groups() const override { return groups_; }
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
        for (size_t i = 0; i < sums.size(); ++i) sums[i] = bs[taps.OutputOf(static_cast<int64_t>(i))];
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
  const bool nhwc_;
  const int64_t groups_;
  const Taps taps_;
  const bool bias_;
  const ElementType element_;
  bool relu_ = false;
};

class HostGpuLibrary : public GpuLibrary {
 public:
  HostGpuLibrary(Gpu* gpu, GpuMath math) : gpu_(gpu), math_(math) {}
  ElementType element() const override { return ElementOf(math_); }
  int64_t channel_pack() const override { return ChannelPack(math_); }
  StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) override {
    return std::unique_ptr<GpuGemm>(std::make_unique<HostGemm>(gpu_, desc, element()));
  }
  StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) override {
    return MakeHostConvolution(gpu_, desc, in, math_, GroupsOf(desc, in, math_));
  }
  StatusOr<std::unique_ptr<GpuJpegDecoder>> JpegDecoder() override { return MakeHostJpegDecoder(gpu_); }

 private:
  Gpu* const gpu_;
  const GpuMath math_;
};

}  // namespace

std::unique_ptr<GpuConvolution> MakeHostConvolution(Gpu* gpu, const ConvolutionDesc& desc, const Shape& in,
                                                    GpuMath math, int64_t groups) {
  return std::make_unique<HostConvolution>(gpu, desc, in, math, groups);
}

std::unique_ptr<GpuLibrary> MakeHostGpuLibrary(Gpu* gpu, GpuMath math) {
  return std::make_unique<HostGpuLibrary>(gpu, math);
}

}  // namespace hp::test
