#include "backend/cuda/library.h"
#include "backend/window.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
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
class DeviceValues {
 public:
  explicit DeviceValues(const Values& values) : values_(values) {
    EXPECT_EQ(cudaMalloc(&data_, Bytes() + 1), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values_.data(), Bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceValues() { cudaFree(data_); }
  float* data() { return static_cast<float*>(data_); }
  std::byte* bytes() { return static_cast<std::byte*>(data_); }
  Values Read() {
    EXPECT_EQ(cudaMemcpy(values_.data(), data_, Bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values_;
  }

 private:
  size_t Bytes() const { return values_.size() * sizeof(float); }
  Values values_;
  void* data_ = nullptr;
};

Values Random(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (float& value : values) value = static_cast<float>(random() >> 8) / 8388608.0f - 1;
  return values;
}

/// Relative to the largest value: what sums of other orders, or of factors with 10 bits, may differ by.
void ExpectClose(const Values& got, const Values& want, GpuMath math) {
  float largest = 0, difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::fabs(want[i]));
    ASSERT_FALSE(std::isnan(got[i])) << i;
    difference = std::max(difference, std::fabs(got[i] - want[i]));
  }
  EXPECT_LE(difference, largest * (math == GpuMath::kTf32 ? 2e-3f : 1e-5f));
}

/// Tensors that one call reads, and at last the one that it writes.
using Tensors = std::vector<Values>;
using Call = std::function<void(const std::vector<float*>&, std::byte* workspace)>;

Values OnHost(FakeGpu* gpu, Tensors tensors, const Call& call) {
  std::vector<float*> pointers;
  for (Values& values : tensors) pointers.push_back(values.data());
  Buffer workspace(1024);
  call(pointers, workspace.data());
  EXPECT_TRUE(gpu->Synchronize().ok());
  return tensors.back();
}

Values OnGpu(const Tensors& tensors, size_t workspace_bytes, const Call& call) {
  std::vector<std::unique_ptr<DeviceValues>> on_device;
  std::vector<float*> pointers;
  for (const Values& values : tensors) {
    pointers.push_back(on_device.emplace_back(std::make_unique<DeviceValues>(values))->data());
  }
  DeviceValues workspace(Values(workspace_bytes / sizeof(float) + 1, std::nanf("")));
  call(pointers, workspace.bytes());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return on_device.back()->Read();
}

class GpuLibraryTest : public testing::TestWithParam<GpuMath> {
 protected:
  void SetUp() override {
    if (!HasGpu()) GTEST_SKIP() << "no GPU of NVIDIA's here";
    auto library = MakeGpuLibrary(&gpu_, GetParam());
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
    host_library_ = MakeHostGpuLibrary(&host_);
  }

  void Compare(const GpuGemmDesc& desc, bool add, int64_t offset) {
    auto gemm = library_->Gemm(desc), want = host_library_->Gemm(desc);
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    const Tensors tensors = {Random(offset + (desc.transpose_a ? desc.k : desc.m) * desc.a_stride, 1),
                             Random(offset + (desc.transpose_b ? desc.n : desc.k) * desc.b_stride, 2),
                             Random(desc.n, 3), Random(offset + desc.m * desc.c_stride, 4)};
    const auto call = [&](GpuGemm* product) -> Call {
      return [=, &desc](const std::vector<float*>& p, std::byte* workspace) {
        product->Run(p[0] + offset, p[1] + offset, desc.bias ? p[2] : nullptr, add, p[3] + offset, workspace);
      };
    };
    const Values got = OnGpu(tensors, (*gemm)->workspace_bytes(), call(gemm->get()));
    ExpectClose(got, OnHost(&host_, tensors, call(want->get())), GetParam());
    EXPECT_EQ(got, OnGpu(tensors, (*gemm)->workspace_bytes(), call(gemm->get()))) << "other bits each time";
  }

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

TEST_P(GpuLibraryTest, ConvolutionsForwardAndBackward) {
  struct Case {
    Shape in;
    int64_t num_output, kernel, stride, pad, dilation, group;
    bool bias;
  };
  for (const Case& c : {Case{{4, 3, 23, 23}, 16, 5, 2, 2, 1, 1, true}, Case{{4, 32, 9, 9}, 64, 3, 1, 1, 1, 1, true},
                        Case{{4, 32, 9, 9}, 64, 3, 1, 1, 1, 2, false}, Case{{2, 5, 9, 8}, 7, 3, 1, 1, 2, 1, true},
                        Case{{2, 6, 5, 5}, 9, 3, 1, 1, 1, 3, true}, Case{{2, 16, 5, 5}, 16, 3, 1, 0, 1, 16, true},
                        Case{{4, 64, 7, 7}, 16, 1, 1, 0, 1, 1, true}}) {
    SCOPED_TRACE(c.in.ToString() + " group " + std::to_string(c.group));
    ConvolutionDesc desc;
    desc.num_output = c.num_output, desc.group = c.group, desc.bias = c.bias;
    desc.kernel_h = desc.kernel_w = c.kernel, desc.stride_h = desc.stride_w = c.stride;
    desc.pad_h = desc.pad_w = c.pad, desc.dilation_h = desc.dilation_w = c.dilation;
    auto made = library_->Convolution(desc, c.in), made_on_host = host_library_->Convolution(desc, c.in);
    ASSERT_TRUE(made.ok()) << made.status();
    GpuConvolution *const gpu = made->get(), *const host = made_on_host->get();
    const size_t workspace = gpu->workspace_bytes();

    const int64_t out = c.in[0] * c.num_output * ConvolvedSize(c.in[2], c.kernel, c.stride, c.pad, c.dilation) *
                        ConvolvedSize(c.in[3], c.kernel, c.stride, c.pad, c.dilation);
    const Values x = Random(c.in.count(), 1),
                 weights = Random(c.num_output * c.in[1] / c.group * c.kernel * c.kernel, 2),
                 bias = Random(c.num_output, 3), dy = Random(out, 4);
    const auto compare = [&](const Tensors& tensors, const std::function<Call(GpuConvolution*)>& call) {
      const Values got = OnGpu(tensors, workspace, call(gpu));
      ExpectClose(got, OnHost(&host_, tensors, call(host)), GetParam());
      EXPECT_EQ(got, OnGpu(tensors, workspace, call(gpu))) << "other bits each time";
    };
    compare({x, weights, bias, Values(out)}, [&](GpuConvolution* convolution) -> Call {
      return [convolution, &c](const std::vector<float*>& p, std::byte* space) {
        convolution->Forward(p[0], p[1], c.bias ? p[2] : nullptr, p[3], space);
      };
    });
    compare({dy, weights, Values(x.size())}, [](GpuConvolution* convolution) -> Call {
      return [convolution](const std::vector<float*>& p, std::byte* space) {
        convolution->BackwardInput(p[0], p[1], p[2], space);
      };
    });
    compare({x, dy, Values(weights.size())}, [](GpuConvolution* convolution) -> Call {
      return [convolution](const std::vector<float*>& p, std::byte* space) {
        convolution->BackwardWeights(p[0], p[1], p[2], space);
      };
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Math, GpuLibraryTest, testing::Values(GpuMath::kFloat32, GpuMath::kTf32),
                         [](const auto& info) { return info.param == GpuMath::kTf32 ? "Tf32" : "Float32"; });

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
