#include "backend/cuda/timed_library.h"
#include "backend/window.h"
#include "test/support/elements.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"
#include "test/support/kept_engines.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

// cuBLASLt and cuDNN against plain loops, on a GPU; without one, that they say so.
namespace hp::test {
namespace {

using Values = std::vector<float>;

bool HasGpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// The default stream of the process's first GPU.
class DefaultStream : public FakeGpu {
 public:
  GpuStream stream(Queue) override { return {}; }
};

/// Memory of the GPU and its contents.
class DeviceBytes {
 public:
  explicit DeviceBytes(const std::vector<std::byte>& bytes) : bytes_(bytes) {
    EXPECT_EQ(cudaMalloc(&data_, bytes_.size() + 1), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceBytes() { cudaFree(data_); }
  std::byte* data() { return static_cast<std::byte*>(data_); }
  std::vector<std::byte> Read() {
    EXPECT_EQ(cudaMemcpy(bytes_.data(), data_, bytes_.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
  void* data_ = nullptr;
};

Values Random(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (float& value : values) value = static_cast<float>(random() >> 8) / 8388608.0f - 1;
  return values;
}

/// Some elements in memory.
struct Elements {
  Elements(ElementType element, const Values& values) : element(element), bytes(values.size() * BytesOf(element)) {
    for (size_t i = 0; i < values.size(); ++i) SetElement(element, values[i], bytes.data(), i);
  }
  explicit Elements(const Values& values) : Elements(ElementType::kFloat32, values) {}
  Values values() const { return GetElements(element, bytes.data(), bytes.size() / BytesOf(element)); }
  /// Where element `i` is in a copy at `data`.
  std::byte* at(std::byte* data, int64_t i) const { return data + i * BytesOf(element); }

  ElementType element;
  std::vector<std::byte> bytes;
};

/// Relative to the largest value: what sums of other orders, or of factors with 10 bits, may differ by, and what the
/// rounding of a result adds.
void ExpectClose(const Elements& got, const Values& want, GpuMath math) {
  float largest = 0, difference = 0;
  const Values values = got.values();
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::fabs(want[i]));
    ASSERT_FALSE(std::isnan(values[i])) << i;
    difference = std::max(difference, std::fabs(values[i] - want[i]));
  }
  const float rounding = got.element == ElementType::kFloat32 ? 0 : 2 * RoundingError(got.element);
  EXPECT_LE(difference, largest * ((math == GpuMath::kTf32 ? 2e-3f : 1e-5f) + rounding));
}

/// Tensors that one call reads, and at last the one that it writes.
using Tensors = std::vector<Elements>;
using Call = std::function<void(const std::vector<std::byte*>&, std::byte* workspace)>;

Elements OnHost(FakeGpu* gpu, Tensors tensors, const Call& call) {
  std::vector<std::byte*> pointers;
  for (Elements& tensor : tensors) pointers.push_back(tensor.bytes.data());
  const Buffer workspace = Buffer::Allocate(1024).value();
  call(pointers, workspace.data());
  EXPECT_TRUE(gpu->Synchronize().ok());
  return tensors.back();
}

Elements OnGpu(const Tensors& tensors, size_t workspace_bytes, const Call& call) {
  std::vector<std::unique_ptr<DeviceBytes>> on_device;
  std::vector<std::byte*> pointers;
  for (const Elements& tensor : tensors) {
    pointers.push_back(on_device.emplace_back(std::make_unique<DeviceBytes>(tensor.bytes))->data());
  }
  DeviceBytes workspace(std::vector<std::byte>(workspace_bytes, std::byte{0xFF}));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // a stream that is not the default one does not wait for copies
  call(pointers, workspace.data());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  Elements result = tensors.back();
  result.bytes = on_device.back()->Read();
  return result;
}

class GpuLibraryTest : public testing::TestWithParam<GpuMath> {
 protected:
  void SetUp() override {
    if (!HasGpu()) GTEST_SKIP() << "no GPU of NVIDIA's here";
    auto library = MakeGpuLibrary(&gpu_, GetParam());
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
    host_library_ = MakeHostGpuLibrary(&host_, GetParam());
  }

  static ElementType element() { return ElementOf(GetParam()); }

  void Compare(const GpuGemmDesc& desc, bool add, int64_t offset) {
    auto gemm = library_->Gemm(desc), want = host_library_->Gemm(desc);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const Tensors tensors = {
        Elements(element(), Random(offset + (desc.transpose_a ? desc.k : desc.m) * desc.a_stride, 1)),
        Elements(element(), Random(offset + (desc.transpose_b ? desc.n : desc.k) * desc.b_stride, 2)),
        Elements(Random(desc.n, 3)), Elements(Random(offset + desc.m * desc.c_stride, 4))};
    const auto call = [&](GpuGemm* product) -> Call {
      return [=, &desc, &tensors](const std::vector<std::byte*>& p, std::byte* workspace) {
        product->Run(tensors[0].at(p[0], offset), tensors[1].at(p[1], offset),
                     desc.bias ? reinterpret_cast<const float*>(p[2]) : nullptr, add,
                     reinterpret_cast<float*>(p[3]) + offset, workspace);
      };
    };
    const Elements got = OnGpu(tensors, (*gemm)->workspace_bytes(), call(gemm->get()));
    ExpectClose(got, OnHost(&host_, tensors, call(want->get())).values(), GetParam());
    EXPECT_EQ(got.bytes, OnGpu(tensors, (*gemm)->workspace_bytes(), call(gemm->get())).bytes) << "other bits each time";
  }

  /// Convolutions of `library` against loops.
  void CompareConvolutions(GpuLibrary* library);

  DefaultStream gpu_;
  FakeGpu host_;
  std::unique_ptr<GpuLibrary> library_, host_library_;
};

TEST_P(GpuLibraryTest, ProductsOfEveryKind) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const bool bias : {false, true}) {
        for (const bool add : {false, true}) {
          SCOPED_TRACE(testing::Message() << transpose_a << transpose_b << bias << add);
          GpuGemmDesc desc = {.m = 20, .n = 36, .k = 52, .transpose_a = transpose_a, .transpose_b = transpose_b};
          desc.bias = bias;
          desc.a_stride = transpose_a ? 20 : 52, desc.b_stride = transpose_b ? 52 : 36, desc.c_stride = 36;
          Compare(desc, add, 0);
          // Columns of wider matrices that begin anywhere.
          desc.m = 7, desc.n = 5, desc.k = 3;
          desc.a_stride = 11, desc.b_stride = 13, desc.c_stride = 9;
          Compare(desc, add, 1);
        }
      }
    }
  }
}

void GpuLibraryTest::CompareConvolutions(GpuLibrary* library) {
  struct Case {
    Shape in;
    int64_t num_output, kernel, stride, pad, dilation, group;
    bool bias;
  };
  for (const Case& c : {Case{{4, 3, 23, 23}, 16, 5, 2, 2, 1, 1, true}, Case{{4, 32, 9, 9}, 64, 3, 1, 1, 1, 1, true},
                        Case{{4, 32, 9, 9}, 64, 3, 1, 1, 1, 2, false}, Case{{2, 64, 16, 16}, 64, 3, 1, 1, 1, 2, true},
                        Case{{2, 5, 9, 8}, 7, 3, 1, 1, 2, 1, true}, Case{{2, 6, 5, 5}, 9, 3, 1, 1, 1, 3, true},
                        Case{{2, 16, 5, 5}, 16, 3, 1, 0, 1, 16, true}, Case{{4, 64, 7, 7}, 16, 1, 1, 0, 1, 1, true}}) {
    SCOPED_TRACE(c.in.ToString() + " group " + std::to_string(c.group));
    ConvolutionDesc desc;
    desc.num_output = c.num_output, desc.group = c.group, desc.bias = c.bias;
    desc.kernel_h = desc.kernel_w = c.kernel, desc.stride_h = desc.stride_w = c.stride;
    desc.pad_h = desc.pad_w = c.pad, desc.dilation_h = desc.dilation_w = c.dilation;
    auto made = library->Convolution(desc, c.in);
    ASSERT_TRUE(made.ok()) << made.status();
    const auto made_on_host = MakeHostConvolution(&host_, desc, c.in, GetParam(), (*made)->groups());
    GpuConvolution *const gpu = made->get(), *const host = made_on_host.get();
    const size_t workspace = gpu->workspace_bytes();
    ASSERT_EQ(gpu->nhwc(), host->nhwc());

    const int64_t out = c.in[0] * c.num_output * ConvolvedSize(c.in[2], c.kernel, c.stride, c.pad, c.dilation) *
                        ConvolvedSize(c.in[3], c.kernel, c.stride, c.pad, c.dilation);
    const Elements x(element(), Random(c.in.count(), 1)),
        weights(element(), Random(c.num_output * c.in[1] / c.group * c.kernel * c.kernel, 2)),
        bias(element(), Random(c.num_output, 3)), dy(element(), Random(out, 4));
    const auto compare = [&](const Tensors& tensors, const std::function<Call(GpuConvolution*)>& call) {
      const Elements got = OnGpu(tensors, workspace, call(gpu));
      ExpectClose(got, OnHost(&host_, tensors, call(host)).values(), GetParam());
      EXPECT_EQ(got.bytes, OnGpu(tensors, workspace, call(gpu)).bytes) << "other bits each time";
    };
    compare({x, weights, bias, dy}, [&](GpuConvolution* convolution) -> Call {
      return [convolution, &c](const std::vector<std::byte*>& p, std::byte* space) {
        convolution->Forward(p[0], p[1], c.bias ? p[2] : nullptr, p[3], space);
      };
    });
    compare({dy, weights, x}, [](GpuConvolution* convolution) -> Call {
      return [convolution](const std::vector<std::byte*>& p, std::byte* space) {
        convolution->BackwardInput(p[0], p[1], p[2], space);
      };
    });
    compare({x, dy, weights}, [](GpuConvolution* convolution) -> Call {
      return [convolution](const std::vector<std::byte*>& p, std::byte* space) {
        convolution->BackwardWeights(p[0], p[1], p[2], space);
      };
    });
  }
}

TEST_P(GpuLibraryTest, ConvolutionsForwardAndBackward) { CompareConvolutions(library_.get()); }

/// The fastest engines compute the same, and the next library takes them without timing anything.
TEST_P(GpuLibraryTest, TimedEnginesAreAsExactAndAreKept) {
  const auto gpu = OpenGpu(0);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  KeptEngines engines;
  for (const bool first : {true, false}) {
    const int kept = engines.kept;
    const auto library = MakeTimedGpuLibrary(gpu->get(), GetParam(), &engines);
    ASSERT_TRUE(library.ok()) << library.status();
    CompareConvolutions(library->get());
    EXPECT_EQ(engines.kept > kept, first);
  }
  const auto timed = [](const auto& entry) { return entry.second.times.chosen_ms > 0; };
  EXPECT_TRUE(std::any_of(engines.entries.begin(), engines.entries.end(), timed));
}

/// Two calls of a small shape may agree by chance where sums are made in any order. Images of LeNet, whose engine says
/// nothing of how it sums.
TEST_P(GpuLibraryTest, AWeightGradientHasTheSameBitsTwentyTimes) {
  const Shape in = {64, 1, 28, 28};
  ConvolutionDesc desc;
  desc.num_output = 20, desc.kernel_h = desc.kernel_w = 5;
  auto made = library_->Convolution(desc, in);
  ASSERT_TRUE(made.ok()) << made.status();
  const Tensors tensors = {Elements(element(), Random(in.count(), 1)),
                           Elements(element(), Random(in[0] * 20 * 24 * 24, 2)),
                           Elements(element(), Random(20 * 5 * 5, 3))};
  const Call call = [&](const std::vector<std::byte*>& p, std::byte* space) {
    (*made)->BackwardWeights(p[0], p[1], p[2], space);
  };
  const size_t workspace = (*made)->workspace_bytes();
  const auto first = OnGpu(tensors, workspace, call).bytes;
  for (int i = 1; i < 20; ++i) ASSERT_EQ(OnGpu(tensors, workspace, call).bytes, first) << i;
}

/// The engines that cuDNN chooses for layers of well-known nets: few of them say that they keep NaNs.
TEST_P(GpuLibraryTest, AReluOfAConvolutionsPlanHandsNansOn) {
  struct Layer {
    Shape in;
    int64_t num_output, kernel, stride, pad, group;
  };
  int taken = 0;
  for (const Layer& layer : {Layer{{2, 3, 227, 227}, 96, 11, 4, 0, 1}, Layer{{2, 96, 27, 27}, 256, 5, 1, 2, 2},
                             Layer{{2, 256, 13, 13}, 384, 3, 1, 1, 1}, Layer{{2, 64, 112, 112}, 64, 3, 1, 1, 1},
                             Layer{{2, 512, 14, 14}, 512, 3, 1, 1, 1}, Layer{{2, 192, 28, 28}, 16, 1, 1, 0, 1},
                             Layer{{2, 3, 224, 224}, 64, 7, 2, 3, 1}, Layer{{64, 1, 28, 28}, 20, 5, 1, 0, 1},
                             Layer{{2, 5, 9, 8}, 7, 3, 2, 1, 1}}) {
    SCOPED_TRACE(layer.in.ToString());
    ConvolutionDesc desc;
    desc.num_output = layer.num_output, desc.group = layer.group, desc.bias = true;
    desc.kernel_h = desc.kernel_w = layer.kernel, desc.stride_h = desc.stride_w = layer.stride;
    desc.pad_h = desc.pad_w = layer.pad;
    const int64_t out = layer.in[0] * layer.num_output *
                        ConvolvedSize(layer.in[2], layer.kernel, layer.stride, layer.pad, 1) *
                        ConvolvedSize(layer.in[3], layer.kernel, layer.stride, layer.pad, 1);
    Values images = Random(layer.in.count(), 1);
    images[images.size() / 3] = std::nanf("");
    const Tensors tensors = {
        Elements(element(), images),
        Elements(element(), Random(layer.num_output * layer.in[1] / layer.group * layer.kernel * layer.kernel, 2)),
        Elements(element(), Random(layer.num_output, 3)), Elements(element(), Values(out))};
    const auto outputs = [&](bool relu) -> std::optional<Values> {
      auto made = library_->Convolution(desc, layer.in);
      EXPECT_TRUE(made.ok()) << made.status();
      if (!made.ok() || (relu && !(*made)->TakeRelu())) return std::nullopt;
      const auto forward = [&made](const std::vector<std::byte*>& p, std::byte* space) {
        (*made)->Forward(p[0], p[1], p[2], p[3], space);
      };
      return OnGpu(tensors, (*made)->workspace_bytes(), forward).values();
    };
    const std::optional<Values> sums = outputs(false), rectified = outputs(true);
    if (!sums || !rectified) continue;
    ++taken;
    int64_t nans = 0, wrong = 0;
    for (int64_t i = 0; i < out; ++i) {
      const float sum = (*sums)[i], got = (*rectified)[i];
      nans += std::isnan(sum);
      wrong += std::isnan(sum) != std::isnan(got) || (sum < -0.1f && got != 0);
    }
    EXPECT_GT(nans, 0);
    EXPECT_EQ(wrong, 0);
  }
  EXPECT_GT(taken, 0);
}

std::string NameOf(const testing::TestParamInfo<GpuMath>& info) {
  const char* const names[] = {"Float32", "Tf32", "BFloat16", "Float16"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Math, GpuLibraryTest,
                         testing::Values(GpuMath::kFloat32, GpuMath::kTf32, GpuMath::kBFloat16, GpuMath::kFloat16),
                         NameOf);

TEST(GpuLibrary, WithoutAGpuThereIsAReason) {
  if (HasGpu()) GTEST_SKIP() << "a GPU is here";
  DefaultStream gpu;
  const auto library = MakeGpuLibrary(&gpu, GpuMath::kFloat32);
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(library.status().message(), testing::StartsWith("cuda:0: "));
}

}  // namespace
}  // namespace hp::test
