#include "test/support/fake_gpu.h"
#include "test/unit/backend/op_cases.h"
#include "test/unit/cuda/gpu_under_test.h"

namespace hp::test {
namespace {

constexpr GpuMath kMaths[] = {GpuMath::kFloat32, GpuMath::kTf32, GpuMath::kBFloat16, GpuMath::kFloat16};

/// A convolution and a deconvolution of images whose rows are no multiple of 16 bytes.
OpCase CaseOf(bool deconvolution) {
  ConvolutionDesc desc;
  desc.num_output = 6, desc.kernel_h = desc.kernel_w = 3, desc.pad_h = desc.pad_w = 1;
  return {.name = "",
          .make =
              [=](Backend& backend, const Backend::Descs& in) {
                return deconvolution ? backend.Deconvolution(desc, in) : backend.Convolution(desc, in);
              },
          .in = {{{2, 9, 7, 5}, 1}},
          .params = {deconvolution ? Shape{9, 6, 3, 3} : Shape{6, 9, 3, 3}, {6}}};
}

/// How many kernels each call launches, those of the library among them, when copies of parameters are there already.
class Launches {
 public:
  Launches(const OpCase& c, GpuMath math)
      : gpu_(NewGpuUnderTest(math)), bench_(gpu_.device.get(), gpu_.backend.get(), c, c.in, ElementOf(math)) {
    bench_.Load(1);
    bench_.Call();
    bench_.Load(2);
  }
  bool fake() const { return dynamic_cast<const FakeGpu*>(gpu_.device.get()) != nullptr; }
  int Forward() {
    return Count([this] { bench_.Forward(); });
  }
  int BackwardInput() {
    return Count([this] { bench_.BackwardInput(); });
  }
  int BackwardParams(bool accumulate) {
    return Count([&] { bench_.BackwardParams(accumulate); });
  }

 private:
  template <typename Call>
  int Count(const Call& call) {
    const auto& gpu = dynamic_cast<const FakeGpu&>(*gpu_.device);
    const int before = gpu.launches();
    call();
    return gpu.launches() - before;
  }

  const BackendUnderTest gpu_;
  OpBench bench_;
};

/// Of a convolution the library's call, and two kernels for the bias gradient; of a deconvolution one more, which adds
/// the bias. Nothing is copied.
TEST(ConvolutionLayout, Float32IsComputedWhereCaffesTensorsLie) {
  for (const bool deconvolution : {false, true}) {
    Launches launches(CaseOf(deconvolution), GpuMath::kFloat32);
    if (!launches.fake()) GTEST_SKIP() << "counts the launches of a fake";
    EXPECT_EQ(launches.Forward(), deconvolution ? 2 : 1);
    EXPECT_EQ(launches.BackwardInput(), 1);
    EXPECT_EQ(launches.BackwardParams(false), 3);
    EXPECT_EQ(launches.BackwardParams(true), 4);
  }
}

TEST(ConvolutionLayout, Float32IsNchwAndTensorCoresAreNhwc) {
  for (const GpuMath math : kMaths) {
    for (const bool deconvolution : {false, true}) {
      const OpCase c = CaseOf(deconvolution);
      const BackendUnderTest gpu = NewGpuUnderTest(math);
      const auto op = c.make(*gpu.backend, c.in);
      ASSERT_TRUE(op.ok()) << op.status();
      const TensorDesc out = op.value()->outputs()[0];
      EXPECT_EQ(out.channel_block, math == GpuMath::kFloat32 ? 1 : 6);
      EXPECT_EQ(out.element, ElementOf(math));
      // The gradient of the weights, where it is not in place, and copies of weights and bias.
      const size_t weights = c.params[0].count() * BytesOf(out.element),
                   bias = c.params[1].count() * BytesOf(out.element);
      const size_t copies = math == GpuMath::kFloat32 ? 0 : weights;
      EXPECT_EQ(op.value()->packed_bytes(), weights + copies + (out.element == ElementType::kFloat32 ? 0 : bias));
    }
  }
}

/// Rows of a micro-batch among those of others begin anywhere (NetBuffer::kUpdateMatrix). The library wants 16 bytes.
TEST(ConvolutionLayout, RowsMayBeginAtAnyFloat) {
  for (const bool deconvolution : {false, true}) {
    const OpCase c = CaseOf(deconvolution);
    const std::unique_ptr<Op> op = c.make(*UnderTest().backend, c.in).value();
    OpRunner run(op.get(), c.in, c.params);
    run.SetInput(0, RandomValues(c.in[0].count(), 1));
    run.SetParam(0, RandomValues(c.params[0].count(), 2));
    run.SetParam(1, RandomValues(c.params[1].count(), 3));
    run.SetOutputGradient(0, RandomValues(op->outputs()[0].count(), 4));
    std::vector<Values> results[2], memory;
    for (const int shift : {0, 1}) {
      for (std::vector<Tensor>* const tensors : {&run.in(), &run.d_in(), &run.out(), &run.d_out()}) {
        for (Tensor& tensor : *tensors) tensor.data = memory.emplace_back(tensor.count() + 1).data() + shift;
      }
      run.Forward();
      results[shift].push_back(run.Output());
      run.BackwardInput();
      run.BackwardParams();
      results[shift].insert(results[shift].end(), {run.InputGradient(), run.ParamGradient(0), run.ParamGradient(1)});
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

}  // namespace
}  // namespace hp::test
