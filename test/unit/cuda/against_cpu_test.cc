#include "test/support/fake_gpu.h"
#include "test/unit/backend/op_cases.h"
#include "test/unit/cuda/gpu_under_test.h"

// Whole calls on memory that only queued work can touch, beside the same calls on the CPU: an op that reads the GPU's
// memory when it is called, or whose work can't be repeated with other numbers in the same memory, fails here.
namespace hp::test {
namespace {

/// A case with the math of its products, which says the element type.
struct MathCase : TypedCase {
  explicit MathCase(const OpCase& c, GpuMath math = GpuMath::kFloat32, bool first_is_float32 = false)
      : TypedCase{c, ElementOf(math), first_is_float32}, math(math) {}
  std::string name() const { return TypedCase::name() + (math == GpuMath::kTf32 ? "_tf32" : ""); }

  GpuMath math;
};

class AgainstCpu : public testing::TestWithParam<MathCase> {
 protected:
  AgainstCpu()
      : gpu_(NewGpuUnderTest(GetParam().math)),
        on_gpu_(gpu_.device.get(), gpu_.backend.get(), GetParam().c, GetParam().in(), GetParam().element) {
    if (GetParam().math == GpuMath::kTf32) on_gpu_.RoundToTf32();
  }

  std::vector<Values> OnCpu(uint32_t seed) {
    OpBench bench(cpu_.get(), cpu_backend_.get(), GetParam().c, GetParam().c.in, GetParam().element);
    if (GetParam().math == GpuMath::kTf32) bench.RoundToTf32();
    bench.Load(seed);
    bench.Call();
    return bench.Results();
  }
  void ExpectSame(const std::vector<Values>& got, const std::vector<Values>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const std::string what = "result " + std::to_string(i);
      if (GetParam().tolerance() == 0) {
        EXPECT_EQ(got[i], want[i]) << what;
      } else {
        ExpectNear(got[i], want[i], GetParam().tolerance(), what);
      }
    }
  }

  const std::unique_ptr<Device> cpu_ = MakeHostDevice();
  const std::unique_ptr<Backend> cpu_backend_ = MakeCpuBackend();
  const BackendUnderTest gpu_;
  OpBench on_gpu_;
};

TEST_P(AgainstCpu, OneCall) {
  on_gpu_.Load(1);
  on_gpu_.Call();
  ExpectSame(on_gpu_.Results(), OnCpu(1));
}

/// What is recorded with one micro-batch is right for the next, whose samples have other numbers, and whose parameters
/// are of another version. The first time is done directly.
TEST_P(AgainstCpu, RepeatedForAnotherMicroBatch) {
  for (uint32_t seed : {1, 2, 3, 4}) {
    on_gpu_.Load(seed);
    on_gpu_.RefreshPacked();
    gpu_.device->RunCaptured({1}, [&] { on_gpu_.Call(); });
    ExpectSame(on_gpu_.Results(), OnCpu(seed));
  }
  if (const auto* fake = dynamic_cast<const FakeGpu*>(gpu_.device.get())) {
    EXPECT_EQ(fake->recorded(), 1);
    EXPECT_EQ(fake->repeated(), 2);
  }
}

std::vector<MathCase> MathCases() {
  std::vector<MathCase> cases;
  for (const OpCase& c : OpCases()) {
    cases.push_back(MathCase(c));
    // Ops that ask the library know TF32 by its layouts alone.
    if (std::string(c.name).find("convolution") != std::string::npos) cases.push_back(MathCase(c, GpuMath::kTf32));
    for (const GpuMath math : {GpuMath::kBFloat16, GpuMath::kFloat16}) {
      cases.push_back(MathCase(c, math));
      if (c.in.size() > 1) cases.push_back(MathCase(c, math, true));
    }
  }
  return cases;
}

/// A kernel's arguments hold the addresses of so many.
TEST(Eltwise, TakesUpTo32Inputs) {
  const BackendUnderTest gpu = NewGpuUnderTest();
  const TensorDesc desc = {{2, 3}, 1};
  EXPECT_TRUE(gpu.backend->Eltwise({}, Backend::Descs(32, desc)).ok());
  const auto more = gpu.backend->Eltwise({}, Backend::Descs(33, desc));
  EXPECT_EQ(more.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(more.status().message(), "Eltwise has 33 bottoms; expected at most 32 on a GPU");
}

INSTANTIATE_TEST_SUITE_P(Ops, AgainstCpu, testing::ValuesIn(MathCases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace hp::test
