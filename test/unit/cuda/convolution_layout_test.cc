#include "backend/cuda/cuda_backend.h"
#include "test/support/fake_gpu.h"
#include "test/support/host_gpu_library.h"
#include "test/unit/backend/op_cases.h"
#include "test/unit/backend/raw_image_batch.h"
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

/// A convolution of images, which come as float32 in NCHW. @param relu it does the ReLU behind it, too.
OpCase ImagesCase(bool input_gradient, bool relu = false) {
  ConvolutionDesc desc;
  desc.num_output = 8, desc.kernel_h = desc.kernel_w = 5, desc.stride_h = desc.stride_w = 2, desc.pad_h = 1;
  desc.input_gradient = input_gradient;
  return {.name = "",
          .make =
              [=](Backend& backend, const Backend::Descs& in) {
                auto op = backend.Convolution(desc, in);
                // A real GPU's library may have none that hands NaNs on.
                if (relu && op.value()->TakeReluBehind()) {
                  EXPECT_TRUE(op.value()->TakeReluGradientBehind());
                }
                return op;
              },
          .in = {{{2, 3, 11, 9}, 1}},
          .params = {{8, 3, 5, 5}, {8}}};
}

/// The copy of the images, which Forward makes, serves BackwardParams as well. Weights and bias have copies already.
TEST(PaddedConvolution, CopiesItsImagesOnce) {
  for (const GpuMath math : {GpuMath::kBFloat16, GpuMath::kFloat16}) {
    Launches launches(ImagesCase(true), math);
    if (!launches.fake()) GTEST_SKIP() << "counts the launches of a fake";
    EXPECT_EQ(launches.Forward(), 2);  // the copy and the library's call
    EXPECT_EQ(launches.BackwardInput(), 2);
    EXPECT_EQ(launches.BackwardParams(false), 4);  // the library's call, the gradient without padding, and the bias's
    EXPECT_EQ(launches.BackwardParams(true), 4);
  }
}

TEST(PaddedConvolution, KeepsTheCopyForTheBackwardPassAndNotTheImages) {
  const OpCase c = ImagesCase(false);
  for (const GpuMath math : kMaths) {
    const BackendUnderTest gpu = NewGpuUnderTest(math);
    const std::unique_ptr<Op> op = c.make(*gpu.backend, c.in).value();
    const bool padded = ElementOf(math) != ElementType::kFloat32;
    const size_t copy = padded ? c.in[0].count() / 3 * 16 : 0;  // 16 bytes a pixel
    EXPECT_EQ(op->backward_reads_input(), !padded);
    EXPECT_GE(op->saved_bytes(), copy);
    EXPECT_LT(op->saved_bytes(), copy + 256);
  }
}

/// What the library can read where it is stays there, and so do channels of groups.
TEST(PaddedConvolution, IsOneOfAnInputThatIsCopiedAnyway) {
  const auto saved = [](GpuMath math, const TensorDesc& in, int64_t group) {
    ConvolutionDesc desc;
    desc.num_output = 6, desc.kernel_h = desc.kernel_w = 3, desc.group = group;
    return NewGpuUnderTest(math).backend->Convolution(desc, {in}).value()->saved_bytes();
  };
  const auto in = [](int64_t channels, int64_t block, ElementType element = ElementType::kFloat32) {
    return TensorDesc{{2, channels, 9, 9}, block, element};
  };
  const auto kBFloat16 = ElementType::kBFloat16;
  EXPECT_GT(saved(GpuMath::kBFloat16, in(3, 1), 1), 0u);
  EXPECT_GT(saved(GpuMath::kBFloat16, in(3, 3), 1), 0u);
  EXPECT_GT(saved(GpuMath::kBFloat16, in(3, 1, kBFloat16), 1), 0u);
  EXPECT_EQ(saved(GpuMath::kBFloat16, in(3, 3, kBFloat16), 1), 0u);
  EXPECT_EQ(saved(GpuMath::kBFloat16, in(3, 1), 3), 0u);
  EXPECT_EQ(saved(GpuMath::kBFloat16, in(8, 1), 1), 0u);
  EXPECT_EQ(saved(GpuMath::kBFloat16, in(1, 1), 1), 0u);
  EXPECT_EQ(saved(GpuMath::kTf32, in(3, 1), 1), 0u);
}

/// The host's library as one that gains nothing by padding.
class LibraryWithoutPadding : public GpuLibrary {
 public:
  LibraryWithoutPadding(Gpu* gpu, GpuMath math) : library_(MakeHostGpuLibrary(gpu, math)) {}
  ElementType element() const override { return library_->element(); }
  int64_t channel_pack() const override { return 1; }
  StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) override { return library_->Gemm(desc); }
  StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) override {
    return library_->Convolution(desc, in);
  }
  StatusOr<std::unique_ptr<GpuJpegDecoder>> JpegDecoder() override { return library_->JpegDecoder(); }

 private:
  const std::unique_ptr<GpuLibrary> library_;
};

/// The zeros add nothing: outputs and gradients have the bits of the same convolution without them.
TEST(PaddedConvolution, ComputesWhatItWouldWithoutPadding) {
  for (const GpuMath math : {GpuMath::kBFloat16, GpuMath::kFloat16}) {
    for (const auto& [block, relu] : {std::pair<int64_t, bool>{1, false}, {3, false}, {1, true}}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(math) << ", blocks of " << block << ", ReLU " << relu);
      OpCase c = ImagesCase(true, relu);
      c.in[0].channel_block = block;
      std::vector<Values> results[2];
      for (const bool padded : {false, true}) {
        FakeGpu gpu;
        std::unique_ptr<GpuLibrary> library = std::make_unique<LibraryWithoutPadding>(&gpu, math);
        if (padded) library = MakeHostGpuLibrary(&gpu, math);
        const std::unique_ptr<Backend> backend = MakeCudaBackend(&gpu, std::move(library)).value();
        OpBench bench(&gpu, backend.get(), c, c.in, ElementOf(math));
        bench.Load(1);
        bench.Call();
        results[padded] = bench.Results();
      }
      EXPECT_EQ(results[false], results[true]);
    }
  }
}

/// Raw images take the place of floats: the same bits, by one launch fewer than with somebody who writes floats.
TEST(PaddedConvolution, ReadsRawImages) {
  constexpr int64_t kRows = 2;
  const OpCase c = ImagesCase(false);
  const Shape crop = {3, c.in[0].shape[2], c.in[0].shape[3]};
  for (const GpuMath math : {GpuMath::kBFloat16, GpuMath::kFloat16}) {
    for (const bool mean_image : {false, true}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(math) << ", mean image " << mean_image);
      const BackendUnderTest gpu = NewGpuUnderTest(math);
      RawImageBatch batch = SomeImages(kRows, crop, mean_image);
      Values floats(kRows * batch.rule.values());
      const std::unique_ptr<Backend> host = MakeCpuBackend();
      host->FloatImages(batch.rule, kRows, batch.raw.data(), floats.data());
      const auto upload = [&](const void* from, size_t bytes) {
        Buffer buffer = gpu.device->Allocate(bytes).value();
        gpu.device->Upload(Device::kCompute, buffer.data(), from, bytes);
        EXPECT_TRUE(gpu.device->Synchronize().ok());
        return buffer;
      };
      const Buffer raw = upload(batch.raw.data(), batch.raw.size());
      const Buffer mean = upload(batch.mean.data(), batch.mean.size() * sizeof(float));
      batch.rule.mean = mean.floats();
      const RawImages images = {batch.rule, raw.data()};
      OpBench bench(gpu.device.get(), gpu.backend.get(), c, c.in, ElementOf(math));
      ASSERT_TRUE(bench.op().reads_raw_images());
      std::vector<Values> results[2];
      for (const bool from_raw : {false, true}) {
        bench.Load(1);
        bench.LoadInput(from_raw ? Values(floats.size(), std::nanf("")) : floats);
        bench.UseRawImages(from_raw ? &images : nullptr);
        bench.Forward();
        bench.UseRawImages(nullptr);  // a backward pass has none
        bench.BackwardParams(false);
        results[from_raw] = bench.Results();
        results[from_raw].erase(results[from_raw].begin() + 1);  // a gradient that nobody wants
      }
      EXPECT_EQ(results[false], results[true]);
    }
  }
}

TEST(PaddedConvolution, ReadsNoOtherRawImages) {
  const auto reads = [](GpuMath math, const OpCase& c, int64_t block) {
    return c.make(*NewGpuUnderTest(math).backend, {{c.in[0].shape, block}}).value()->reads_raw_images();
  };
  EXPECT_TRUE(reads(GpuMath::kBFloat16, ImagesCase(false, true), 1));
  EXPECT_FALSE(reads(GpuMath::kBFloat16, ImagesCase(true), 1)) << "whose gradient is wanted";
  EXPECT_FALSE(reads(GpuMath::kBFloat16, ImagesCase(false), 3)) << "which are no source's";
  EXPECT_FALSE(reads(GpuMath::kFloat32, ImagesCase(false), 1)) << "which are read where they are";
  EXPECT_FALSE(reads(GpuMath::kBFloat16, CaseOf(false), 1)) << "of more channels";
}

}  // namespace
}  // namespace hp::test
