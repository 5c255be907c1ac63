#include "backend/cuda/cudnn_convolution.h"
#include "test/support/kept_engines.h"
#include "test/support/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// cuDNN makes plans for a GPU that is only described, so this runs where there is none. Nothing is executed.
namespace hp::test {
namespace {

using testing::HasSubstr;

/// As cuDNN 9.8 and later describe an H200 and an A100.
std::string DescribeGpu(bool hopper) {
  return std::string(R"({"cudaDeviceId": 0, "driverVer": 13000, "pciDeviceId": 0, "isTccDriver": 0,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "warpSize": 32, "regsPerBlock": 65536,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
    "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024, "supportCoopLaunch": 1, )") +
         (hopper ? R"("deviceName": "NVIDIA H200", "deviceVer": 900, "multiProcessorCount": 132,
    "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
    "maxSharedMemoryPerBlockOptin": 232448, "maxSharedMemoryPerSM": 233472, "totalGlobalMem": 150754820096})"
                 : R"("deviceName": "NVIDIA A100-SXM4-80GB", "deviceVer": 800, "multiProcessorCount": 108,
    "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "l2CacheSize": 41943040,
    "maxSharedMemoryPerBlockOptin": 166912, "maxSharedMemoryPerSM": 167936, "totalGlobalMem": 85095874560})");
}

constexpr size_t kWorkspace = size_t{4} << 30;

struct Case {
  const char* name;
  Shape in;
  int64_t num_output, kernel, stride = 1, pad = 0, group = 1, dilation = 1;
  bool tensor_cores = false;  ///< there are engines with them for any math but float32, on both GPUs
};

const Case kCases[] = {
    {.name = "AlexNet conv1", .in = {256, 3, 227, 227}, .num_output = 96, .kernel = 11, .stride = 4},
    {.name = "AlexNet conv2", .in = {256, 96, 27, 27}, .num_output = 256, .kernel = 5, .pad = 2, .group = 2},
    {.name = "AlexNet conv3", .in = {256, 256, 13, 13}, .num_output = 384, .kernel = 3, .pad = 1, .tensor_cores = true},
    {.name = "VGG conv1_2", .in = {64, 64, 224, 224}, .num_output = 64, .kernel = 3, .pad = 1, .tensor_cores = true},
    {.name = "GoogLeNet reduce", .in = {128, 192, 28, 28}, .num_output = 16, .kernel = 1, .tensor_cores = true},
    {.name = "LeNet conv1", .in = {64, 1, 28, 28}, .num_output = 20, .kernel = 5},
    {.name = "odd", .in = {2, 5, 9, 8}, .num_output = 7, .kernel = 3, .stride = 2, .pad = 1, .dilation = 2},
    {.name = "odd groups", .in = {2, 6, 5, 5}, .num_output = 9, .kernel = 3, .pad = 1, .group = 3},
    {.name = "FCN-32s upscore, backwards", .in = {1, 21, 608, 576}, .num_output = 21, .kernel = 64, .stride = 32},
    {.name = "DCGAN deconv2, backwards", .in = {64, 256, 8, 8}, .num_output = 512, .kernel = 4, .stride = 2, .pad = 1},
    {.name = "depthwise, enlarged, backwards",
     .in = {2, 21, 36, 36},
     .num_output = 21,
     .kernel = 4,
     .stride = 2,
     .group = 21},
    {.name = "depthwise", .in = {2, 16, 5, 5}, .num_output = 16, .kernel = 3, .group = 16},
};

ConvolutionDesc Desc(const Case& c) {
  ConvolutionDesc desc;
  desc.num_output = c.num_output, desc.group = c.group;
  desc.kernel_h = desc.kernel_w = c.kernel;
  desc.stride_h = desc.stride_w = c.stride;
  desc.pad_h = desc.pad_w = c.pad;
  desc.dilation_h = desc.dilation_w = c.dilation;
  return desc;
}

class CudnnPlans : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#if CUDNN_VERSION >= 90800
    if (cudnnGetVersion() < 90800) GTEST_SKIP() << "this cuDNN makes no plans without a GPU";
    const std::string text = DescribeGpu(GetParam());
    device_ = CudnnDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "description of a GPU");
    device_.SetAll(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::vector<char>(text.begin(), text.end()));
    const Status status = device_.Finalize();
    if (!status.ok()) GTEST_SKIP() << "this cuDNN wants another description: " << status;
#else
    GTEST_SKIP() << "this cuDNN makes no plans without a GPU";
#endif
  }

  StatusOr<CudnnConvolutionPlans> Make(const ConvolutionDesc& desc, const Shape& in, GpuMath math,
                                       size_t workspace = kWorkspace) {
    return CudnnConvolutionPlans::Make(Target(math, workspace), desc, in, PrefersNhwc(math));
  }
  CudnnTarget Target(GpuMath math, size_t workspace = kWorkspace) const {
    return {.handle = nullptr, .device = &device_, .math = math, .most_workspace_bytes = workspace};
  }

  /// With a chooser over `kept_`, whose clock says `time`.
  CudnnTarget TimedTarget(GpuMath math, std::function<StatusOr<double>(const CudnnPlan& plan)> time) {
    CudnnTarget target = Target(math);
    target.chooser = &chooser_;
    target.time = std::move(time);
    return target;
  }
  StatusOr<CudnnConvolutionPlans> MakeTimed(GpuMath math, std::function<StatusOr<double>(const CudnnPlan&)> time,
                                            const Case& c) {
    return CudnnConvolutionPlans::Make(TimedTarget(math, std::move(time)), Desc(c), c.in, PrefersNhwc(math));
  }

  CudnnDescriptor device_;
  KeptEngines kept_;
  EngineChooser chooser_{&kept_, "a described GPU", "cuDNN"};
};

bool Has(const CudnnPlan& plan, cudnnBackendNumericalNote_t note) {
  return std::count(plan.notes().begin(), plan.notes().end(), note) > 0;
}

TEST_P(CudnnPlans, AreDeterministicAndAsExactAsAsked) {
  for (const Case& c : kCases) {
    for (const GpuMath math : {GpuMath::kFloat32, GpuMath::kTf32, GpuMath::kBFloat16, GpuMath::kFloat16}) {
      SCOPED_TRACE(std::string(c.name) + ", math " + std::to_string(static_cast<int>(math)));
      const auto plans = Make(Desc(c), c.in, math);
      ASSERT_TRUE(plans.ok()) << plans.status();
      ASSERT_TRUE(plans->backward_input);
      EXPECT_TRUE(plans->bias_fused || !c.tensor_cores);
      for (const CudnnPlan* plan : {&plans->forward, &plans->backward_weights, &*plans->backward_input}) {
        EXPECT_FALSE(Has(*plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
        EXPECT_FALSE(Has(*plan, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
        EXPECT_FALSE(Has(*plan, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
        const bool tensor_cores = Has(*plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        EXPECT_TRUE(math == GpuMath::kFloat32 ? !tensor_cores : tensor_cores || !c.tensor_cores);
        EXPECT_LE(plan->workspace_bytes(), kWorkspace);
      }
    }
  }
}

/// A ReLU is part of the convolution's kernel wherever its bias is.
TEST_P(CudnnPlans, TakeAReluWhereTheyTakeTheBias) {
  int taken = 0;
  for (const Case& c : kCases) {
    for (const GpuMath math : {GpuMath::kFloat32, GpuMath::kBFloat16}) {
      SCOPED_TRACE(std::string(c.name) + ", math " + std::to_string(static_cast<int>(math)));
      ConvolutionDesc desc = Desc(c);
      desc.input_gradient = false;
      const auto plans = Make(desc, c.in, math);
      ASSERT_TRUE(plans.ok()) << plans.status();
      const auto relu = CudnnConvolutionPlans::MakeForwardWithRelu(Target(math), desc, c.in, PrefersNhwc(math));
      EXPECT_EQ(relu.ok(), plans->bias_fused) << relu.status();
      taken += relu.ok();
    }
  }
  EXPECT_GT(taken, 0);
}

/// In NHWC, engines for float32 copy images to NCHW and back in their workspace.
TEST_P(CudnnPlans, Float32WantsNoMoreWorkspaceInNchw) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto nchw = CudnnConvolutionPlans::Make(Target(GpuMath::kFloat32), Desc(c), c.in, /*nhwc=*/false);
    const auto nhwc = CudnnConvolutionPlans::Make(Target(GpuMath::kFloat32), Desc(c), c.in, /*nhwc=*/true);
    ASSERT_TRUE(nchw.ok()) << nchw.status();
    ASSERT_TRUE(nhwc.ok()) << nhwc.status();
    EXPECT_TRUE(nchw->bias_fused);
    constexpr size_t kLittle = 1 << 20;
    EXPECT_LE(nchw->workspace_bytes(), nhwc->workspace_bytes() + kLittle);
    if (std::string(c.name) == "VGG conv1_2") {
      EXPECT_LE(nchw->workspace_bytes(), kLittle);
      EXPECT_GT(nhwc->workspace_bytes(), size_t{1500} << 20);
    }
  }
}

/// x and y of each group follow each other, as do rows of the weights and places of the bias.
TEST_P(CudnnPlans, GroupsFollowEachOther) {
  auto plans = Make(Desc({.name = "", .in = {}, .num_output = 16, .kernel = 3}), {2, 8, 5, 5}, GpuMath::kBFloat16);
  ASSERT_TRUE(plans.ok()) << plans.status();
  plans->groups = 2;  // of 16 channels and 32 outputs
  const std::vector<std::byte> memory(20'000);
  const std::byte* const x = memory.data();
  const std::byte *const weights = x + 1000, *const bias = x + 8000, *const y = x + 9000;
  using Pointers = std::vector<std::pair<int64_t, const void*>>;
  using Id = CudnnConvolutionPlans::Id;
  EXPECT_EQ(plans->PointersOf(0, x, weights, bias, y),
            (Pointers{{Id::kX, x}, {Id::kWeights, weights}, {Id::kY, y}, {Id::kBias, bias}}));
  const std::byte *const next_x = x + 2 * (2 * 8 * 5 * 5), *const next_y = y + 2 * (2 * 16 * 3 * 3),
                         *const more = weights + 2 * (16 * 8 * 3 * 3);
  EXPECT_EQ(plans->PointersOf(1, x, weights, bias, y),
            (Pointers{{Id::kX, next_x}, {Id::kWeights, more}, {Id::kY, next_y}, {Id::kBias, bias + 2 * 16}}));
  EXPECT_EQ(plans->PointersOf(1, x, weights, nullptr, y),
            (Pointers{{Id::kX, next_x}, {Id::kWeights, more}, {Id::kY, next_y}}));
}

ConvolutionDesc DescOfGroups(int64_t num_output, int64_t kernel, int64_t group) {
  return Desc({.name = "", .in = {}, .num_output = num_output, .kernel = kernel, .pad = kernel / 2, .group = group});
}

/// AlexNet's convolutions of two groups. cuDNN's own engines for groups copy all tensors, or do without tensor cores.
TEST_P(CudnnPlans, FewGroupsUseTensorCoresAndAreNotCopied) {
  for (const auto& [in, num_output, kernel] : {std::tuple(Shape{256, 96, 27, 27}, 256, 5),
                                               {Shape{256, 384, 13, 13}, 384, 3},
                                               {Shape{256, 384, 13, 13}, 256, 3}}) {
    for (const GpuMath math : {GpuMath::kTf32, GpuMath::kBFloat16, GpuMath::kFloat16}) {
      SCOPED_TRACE(testing::Message() << "[" << in << "] to " << num_output << ", math " << static_cast<int>(math));
      const ConvolutionDesc desc = DescOfGroups(num_output, kernel, 2);
      const auto best = CudnnConvolutionPlans::MakeBest(Target(math), desc, in);
      ASSERT_TRUE(best.ok()) << best.status();
      for (const CudnnPlan* plan : {&best->forward, &best->backward_weights, &*best->backward_input}) {
        EXPECT_TRUE(Has(*plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
      }
      EXPECT_EQ(best->groups, 2);
      EXPECT_EQ(best->out[1], num_output / 2);
      EXPECT_EQ(best->in, in.With(1, in[1] / 2));
      if (math == GpuMath::kTf32) continue;  // an A100's engines for it transpose some tensors
      EXPECT_LE(best->workspace_bytes(), size_t{6} << 20);
      const auto whole = Make(desc, in, math);
      ASSERT_TRUE(whole.ok()) << whole.status();
      EXPECT_GT(whole->workspace_bytes(), size_t{60} << 20);
    }
  }
}

/// The small convolution of groups that tests on GPUs compute (convolution_of_larger_groups, cuda_channel_groups).
TEST_P(CudnnPlans, SomeSmallGroupsAreComputedOneByOne) {
  for (const GpuMath math : {GpuMath::kTf32, GpuMath::kBFloat16, GpuMath::kFloat16}) {
    const auto best = CudnnConvolutionPlans::MakeBest(Target(math), DescOfGroups(64, 3, 2), {2, 64, 16, 16});
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_EQ(best->groups, 2) << static_cast<int>(math);
  }
}

TEST_P(CudnnPlans, OtherGroupsAreComputedTogether) {
  const Shape in = {8, 64, 9, 9};
  for (const auto& [num_output, group, math] :
       {std::tuple(64, 2, GpuMath::kFloat32), {64, 32, GpuMath::kBFloat16}, {24, 2, GpuMath::kBFloat16}}) {
    const auto best = CudnnConvolutionPlans::MakeBest(Target(math), DescOfGroups(num_output, 3, group), in);
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_EQ(best->groups, 1) << "FP32, many groups, or pixels that are not aligned";
  }
}

/// In 16 bits cuDNN pads the channels of images itself, in its workspace, unless that has been done.
TEST_P(CudnnPlans, ImagesOfEightChannelsWantLittleWorkspace) {
  for (const Case& c :
       {kCases[0], Case{.name = "VGG conv1_1", .in = {64, 3, 224, 224}, .num_output = 64, .kernel = 3, .pad = 1},
        Case{.name = "ResNet conv1", .in = {64, 3, 224, 224}, .num_output = 64, .kernel = 7, .stride = 2, .pad = 3}}) {
    for (const GpuMath math : {GpuMath::kBFloat16, GpuMath::kFloat16}) {
      SCOPED_TRACE(std::string(c.name) + ", math " + std::to_string(static_cast<int>(math)));
      ConvolutionDesc desc = Desc(c);
      desc.input_gradient = false;
      const auto images = Make(desc, c.in, math), padded = Make(desc, c.in.With(1, ChannelPack(math)), math);
      ASSERT_TRUE(images.ok()) << images.status();
      ASSERT_TRUE(padded.ok()) << padded.status();
      EXPECT_TRUE(padded->bias_fused);
      EXPECT_LE(padded->workspace_bytes(), size_t{8} << 20);
      EXPECT_GT(images->workspace_bytes(), size_t{48} << 20);
    }
  }
}

TEST_P(CudnnPlans, EnginesThatWantTooMuchWorkspaceArePassedOver) {
  const Case c = {
      .name = "AlexNet conv4", .in = {256, 384, 13, 13}, .num_output = 384, .kernel = 3, .pad = 1, .group = 2};
  const auto any = Make(Desc(c), c.in, GpuMath::kFloat32);
  ASSERT_TRUE(any.ok()) << any.status();
  ASSERT_GT(any->backward_input->workspace_bytes(), size_t{1} << 20);
  const auto small = Make(Desc(c), c.in, GpuMath::kFloat32, size_t{1} << 20);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_LE(small->backward_input->workspace_bytes(), size_t{1} << 20);
}

TEST_P(CudnnPlans, OutputShapesAreCaffes) {
  const auto plans = Make(Desc(kCases[6]), kCases[6].in, GpuMath::kFloat32);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ(plans->out, (Shape{2, 7, 4, 3}));
}

TEST_P(CudnnPlans, OnlyWhatIsWantedIsMade) {
  ConvolutionDesc desc = Desc(kCases[5]);
  desc.input_gradient = false, desc.bias = false;
  const auto plans = Make(desc, kCases[5].in, GpuMath::kFloat32);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_FALSE(plans->backward_input);
  EXPECT_FALSE(plans->bias_fused);
}

TEST_P(CudnnPlans, AFailureNamesTheConvolutionAndTheCause) {
  const auto plans = Make(Desc({.name = "", .in = {}, .num_output = 4, .kernel = 9}), {2, 3, 5, 5}, GpuMath::kFloat32);
  ASSERT_FALSE(plans.ok());
  EXPECT_EQ(plans.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(plans.status().message(), HasSubstr("convolution of [2 3 5 5] by 4 x 9 x 9"));
  EXPECT_THAT(plans.status().message(), HasSubstr("CUDNN_STATUS_BAD_PARAM"));
}

TEST_P(CudnnPlans, MemoryThatIsNotAlignedIsRefused) {
  const auto plans = Make(Desc(kCases[5]), kCases[5].in, GpuMath::kFloat32);
  ASSERT_TRUE(plans.ok()) << plans.status();
  const Status status =
      plans->forward.Run(nullptr, {{CudnnConvolutionPlans::kX, reinterpret_cast<void*>(24)}}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("tensor x is not aligned to 16 bytes"));
}

/// Each of the candidates would do as well as the one that the heuristics put first, and that one is the first to be
/// timed.
TEST_P(CudnnPlans, CandidatesAreAcceptableAndBeginWithTheHeuristics) {
  int operations = 0, several = 0, candidates = 0;
  for (const Case& c : kCases) {
    for (const GpuMath math : {GpuMath::kFloat32, GpuMath::kTf32, GpuMath::kBFloat16, GpuMath::kFloat16}) {
      SCOPED_TRACE(std::string(c.name) + ", math " + std::to_string(static_cast<int>(math)));
      const auto first = Make(Desc(c), c.in, math);
      ASSERT_TRUE(first.ok()) << first.status();
      std::vector<std::vector<EngineChoice>> timed;  // by operation
      size_t begun = 0;                              // choices that were kept before the last one
      const auto time = [&](const CudnnPlan& plan) -> StatusOr<double> {
        if (timed.empty() || begun != kept_.entries.size()) timed.emplace_back();  // a choice was kept meanwhile
        begun = kept_.entries.size();
        timed.back().push_back(plan.choice());
        EXPECT_FALSE(Has(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
        EXPECT_FALSE(Has(plan, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
        EXPECT_FALSE(Has(plan, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
        EXPECT_TRUE(math != GpuMath::kFloat32 || !Has(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
        EXPECT_LE(plan.workspace_bytes(), kWorkspace);
        return 1.0;
      };
      kept_.entries.clear();
      const auto plans = MakeTimed(math, time, c);
      ASSERT_TRUE(plans.ok()) << plans.status();
      EXPECT_EQ(plans->bias_fused, first->bias_fused);
      EXPECT_EQ(kept_.entries.size(), 3u) << "forward and two gradients";
      EXPECT_LE(timed.size(), kept_.entries.size());
      for (const std::vector<EngineChoice>& engines : timed) {
        EXPECT_GT(engines.size(), 1u);
        EXPECT_LE(engines.size(), CudnnPlan::kMostCandidates);
        candidates += static_cast<int>(engines.size());
        for (size_t i = 0; i < engines.size(); ++i) {
          EXPECT_EQ(std::count(engines.begin(), engines.end(), engines[i]), 1) << "candidate " << i;
        }
      }
      operations += static_cast<int>(kept_.entries.size());
      several += static_cast<int>(timed.size());
      // All took as long, so the order decided.
      EXPECT_EQ(plans->forward.notes(), first->forward.notes());
      EXPECT_EQ(plans->forward.workspace_bytes(), first->forward.workspace_bytes());
      EXPECT_EQ(plans->backward_weights.workspace_bytes(), first->backward_weights.workspace_bytes());
      EXPECT_EQ(plans->backward_input->workspace_bytes(), first->backward_input->workspace_bytes());
    }
  }
  EXPECT_GT(several, operations / 2) << "operations with a choice, of " << operations;
  RecordProperty("operations", operations);
  RecordProperty("with_a_choice", several);
  RecordProperty("candidates_of_these", candidates);
}

/// The second start times nothing, and makes the engine of the first one again, by its number and its knobs.
TEST_P(CudnnPlans, AKeptEngineIsMadeAgain) {
  size_t knobs = 0;
  for (const Case& c : kCases) {
    for (const GpuMath math : {GpuMath::kFloat32, GpuMath::kBFloat16}) {
      SCOPED_TRACE(std::string(c.name) + ", math " + std::to_string(static_cast<int>(math)));
      kept_.entries.clear();
      double ms = 100;
      const auto later_is_faster = [&ms](const CudnnPlan&) -> StatusOr<double> { return ms *= 0.9; };
      auto chosen = MakeTimed(math, later_is_faster, c);
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      const auto before = kept_.entries.size();
      const auto never = [](const CudnnPlan&) -> StatusOr<double> {
        ADD_FAILURE() << "an engine is timed that was chosen before";
        return 1.0;
      };
      const LogLines warnings(google::GLOG_WARNING);
      auto again = MakeTimed(math, never, c);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(kept_.entries.size(), before);
      EXPECT_EQ(again->bias_fused, chosen->bias_fused);
      const auto expect_same = [&knobs](CudnnPlan& plan, CudnnPlan& other) {
        EXPECT_EQ(plan.choice(), other.choice());
        knobs += plan.choice().knobs.size();
        ASSERT_TRUE(plan.Describe().ok()) << plan.Describe().status();
        EXPECT_EQ(plan.Describe().value(), other.Describe().value());
        EXPECT_EQ(plan.notes(), other.notes());
        EXPECT_EQ(plan.workspace_bytes(), other.workspace_bytes());
      };
      expect_same(again->forward, chosen->forward);
      expect_same(again->backward_weights, chosen->backward_weights);
      expect_same(*again->backward_input, *chosen->backward_input);
    }
  }
  EXPECT_GT(knobs, std::size(kCases));
}

/// As when somebody's file names an engine that this cuDNN does not have.
TEST_P(CudnnPlans, AKeptEngineThatCantBeMadeIsChosenAgain) {
  const Case& c = kCases[2];
  int timed = 0;
  const auto time = [&timed](const CudnnPlan&) -> StatusOr<double> { return ++timed; };
  const auto make = [&] { return MakeTimed(GpuMath::kBFloat16, time, c); };
  ASSERT_TRUE(make().ok());
  const auto good = kept_.entries;
  timed = 0;
  for (auto& [key, entry] : kept_.entries) entry.choice = {.engine = 123456, .knobs = {}};
  LogLines warnings(google::GLOG_WARNING);
  ASSERT_TRUE(make().ok());
  EXPECT_GT(timed, 0);
  EXPECT_EQ(warnings.With("engine 123456, which was chosen before, can't be used: cuDNN: ").size(), good.size());
  for (const auto& [key, entry] : good) EXPECT_EQ(kept_.entries.at(key).choice, entry.choice) << key.operation;
}

/// Whatever changes what is computed, or how it lies in memory, is another operation.
TEST_P(CudnnPlans, AnOperationIsNamedByAllThatItDependsOn) {
  const auto time = [](const CudnnPlan&) -> StatusOr<double> { return 1.0; };
  const Case& c = kCases[1];
  ASSERT_TRUE(MakeTimed(GpuMath::kBFloat16, time, c).ok());
  std::vector<std::string> names;
  for (const auto& [key, entry] : kept_.entries) {
    EXPECT_EQ(key.gpu, "a described GPU");
    EXPECT_EQ(key.library, "cuDNN");
    names.push_back(key.operation);
  }
  const std::string convolution =
      "convolution of [256 96 27 27] by 256 x 5 x 5, stride 1 x 1, pad 2 x 2, dilation 1 x 1, group 2";
  const std::string tensors =
      "; bfloat16; x bfloat16 [256 96 27 27] NHWC; y bfloat16 [256 256 27 27] NHWC; w bfloat16 [256 48 "
      "5 5] NHWC";
  EXPECT_THAT(names, testing::IsSupersetOf({"weight gradient of " + convolution + tensors,
                                            "input gradient of " + convolution + tensors}));
  ASSERT_TRUE(MakeTimed(GpuMath::kFloat32, time, c).ok());
  ASSERT_TRUE(MakeTimed(GpuMath::kTf32, time, c).ok());
  EXPECT_EQ(kept_.entries.size(), 9u) << "each math has its own";
}

/// What a plan is timed with: every tensor in memory, and no virtual one.
TEST_P(CudnnPlans, TensorsHaveTheirBytes) {
  const Case& c = kCases[6];
  const auto plans = Make(Desc(c), c.in, GpuMath::kFloat32);
  ASSERT_TRUE(plans.ok()) << plans.status();
  std::map<char, size_t> bytes;
  for (const CudnnPlan::Tensor& tensor : plans->backward_weights.tensors()) {
    bytes[static_cast<char>(tensor.id)] = tensor.bytes;
  }
  const std::map<char, size_t> expected = {
      {'x', 2 * 5 * 9 * 8 * 4}, {'y', 2 * 7 * 4 * 3 * 4}, {'w', 7 * 5 * 3 * 3 * 4}};
  EXPECT_EQ(bytes, expected);
  const auto halves = Make(Desc(kCases[2]), kCases[2].in, GpuMath::kBFloat16);
  ASSERT_TRUE(halves.ok()) << halves.status();
  ASSERT_TRUE(halves->bias_fused);
  bytes.clear();
  for (const CudnnPlan::Tensor& tensor : halves->forward.tensors()) bytes[static_cast<char>(tensor.id)] = tensor.bytes;
  EXPECT_EQ(bytes.size(), 4u) << "the product before the bias is in no memory";
  EXPECT_EQ(bytes['b'], 384u * 2);
  EXPECT_EQ(bytes['x'], 256u * 256 * 13 * 13 * 2);
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, testing::Bool(),
                         [](const auto& info) { return info.param ? "Hopper" : "Ampere"; });

}  // namespace
}  // namespace hp::test
