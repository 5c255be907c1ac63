// What only a fake GPU can show of nodes on GPUs: how often it repeats its recordings, that it is full, that it fails.
#include "base/mutex.h"
#include "base/thread.h"
#include "tensor/raw_images.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/fake_device.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

class FakeGpuContractTest : public ContractTest {};

/// Once every segment of every solver was recorded, each further task is one replay, and images are on the GPU before
/// their task begins.
TEST_F(FakeGpuContractTest, RepeatsRecordings) {
  std::atomic<int> recorded{0}, repeated{0}, brought_ahead{0};
  ClusterSpec table = Table(1, {}, 3, 0, false);
  table.precision = RoutingTableConfig::TF32;  // which the node's device is told, and a fake makes nothing of
  table.open_device = [&](Rank) {
    FakeGpu::Options options;
    options.protect = true;
    options.on_close = [&](const FakeGpu& gpu) {
      recorded += gpu.recorded();
      repeated += gpu.repeated();
      brought_ahead += gpu.copies();
    };
    return FakeDevice(options);
  };
  Check(Solver(""), {table});
  EXPECT_GT(recorded, 0);
  EXPECT_GT(repeated, 3 * recorded) << recorded << " recordings";
  EXPECT_GT(brought_ahead, 0);
}

/// Each task of a segment that reads labels copies them, and the numbers that kernels read, in one go; images come
/// ahead. The driver waits for none of it, since all lies in pinned memory.
TEST_F(FakeGpuContractTest, BringsInputsByOneCopyOfPinnedMemory) {
  constexpr int kMicroBatches = 3, kSubBatches = 2;
  ClusterSpec table = Table(1, {}, kMicroBatches, 0, false);
  std::atomic<int> uploads{0}, unpinned{0};
  table.open_device = [&](Rank) {
    FakeGpu::Options options;
    options.on_close = [&](const FakeGpu& gpu) {
      uploads = gpu.uploads();
      unpinned = gpu.unpinned_uploads();
    };
    return FakeDevice(options);
  };
  const auto train = [&](int iterations) {
    const ClusterResult result = TrainCluster(table, Solver("", false, iterations));
    EXPECT_TRUE(result.status.ok()) << result.status;
    return std::pair(uploads.load(), unpinned.load());
  };
  const auto [few, few_unpinned] = train(3);
  const auto [more, more_unpinned] = train(7);
  EXPECT_EQ(more - few, 4 * kSubBatches * kMicroBatches * 2);
  EXPECT_EQ(more_unpinned, few_unpinned);
}

/// An update is one launch, which also writes the copies of 16 bits that convolutions and products read. Beside it only
/// the products' gradients over the rows of all micro-batches are not recorded.
TEST_F(FakeGpuContractTest, AnUpdateIsOneLaunch) {
  ClusterSpec table = Table(1, {}, 3, 1, false);
  table.precision = RoutingTableConfig::BF16;
  std::atomic<int> launches{0};
  table.open_device = [&](Rank) {
    FakeGpu::Options options;
    options.on_close = [&](const FakeGpu& gpu) { launches = gpu.launches(); };
    return FakeDevice(options, RoutingTableConfig::BF16);
  };
  const auto train = [&](int iterations) {
    const ClusterResult result = TrainCluster(table, Solver("", false, iterations));
    EXPECT_TRUE(result.status.ok()) << result.status;
    return launches.load();
  };
  const int few = train(4);
  constexpr int kProducts = 2, kOfEach = 5;  // two copies of factors, the product, the bias gradient by two kernels
  EXPECT_EQ(train(8) - few, 4 * (1 + kProducts * kOfEach));
}

/// The layers of AlexNet, cut within its groups of channels, and those of CaffeNet.
TEST_F(FakeGpuContractTest, ConvolutionsOfGroups) {
  const auto conv = [](const std::string& name, const std::string& bottom, int groups) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
           "' convolution_param { num_output: 16 kernel_size: 3 pad: 1 group: " + std::to_string(groups) +
           " weight_filler { type: 'msra' } bias_filler { type: 'constant' value: 0.1 } } }\n"
           "layer { name: 'relu " +
           name + "' type: 'ReLU' bottom: '" + name + "' top: '" + name + "' }\n";
  };
  const auto pool = [](const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'Pooling' bottom: '" + bottom + "' top: '" + name +
           "' pooling_param { kernel_size: 2 stride: " + (name == "pool1" ? "2" : "1") + " } }\n";
  };
  const auto norm = [](const std::string& name, const std::string& bottom) {
    return "layer { name: '" + name + "' type: 'LRN' bottom: '" + bottom + "' top: '" + name +
           "' lrn_param { local_size: 5 alpha: 0.1 } }\n";
  };
  const std::string end =
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'pool5' top: 'ip' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
  const std::string alexnet = conv("conv1", "data", 1) + norm("norm1", "conv1") + pool("pool1", "norm1") +
                              conv("conv2", "pool1", 2) + norm("norm2", "conv2") + pool("pool2", "norm2"),
                    caffenet = conv("conv1", "data", 1) + pool("pool1", "conv1") + norm("norm1", "pool1") +
                               conv("conv2", "norm1", 2) + pool("norm2", "conv2") + norm("pool2", "norm2"),
                    rest = conv("conv3", "pool2", 1) + conv("conv4", "conv3", 2) + conv("conv5", "conv4", 2) +
                           pool("pool5", "conv5") + end;
  ClusterSpec one = Table(1, {}, 3, 0, false), cut;
  cut.stages = {{"kind: CONV to_layer: 'conv4'", 2}, {"kind: CONV from_layer: 'relu conv4'", 1}};
  cut.micro_batches = 2;
  for (const auto& [table, layers] : {std::pair(&cut, alexnet), {&one, caffenet}}) {
    table->precision = RoutingTableConfig::TF32;
    table->open_device = [](Rank) {
      FakeGpu::Options options;
      options.protect = true;
      return FakeDevice(options, RoutingTableConfig::TF32);
    };
    Check(SolverOf(layers + rest, "", 0.005), {*table});
  }
}

/// In 16 bits the first convolution makes what it reads of the records' bytes, if nobody else needs floats. A layer in
/// place on the images is not passed by.
TEST_F(FakeGpuContractTest, ImagesThatAConvolutionMakesOfBytes) {
  const auto train = [&](const std::string& before, const std::string& images) {
    const std::string net =
        before + "layer { name: 'conv1' type: 'Convolution' bottom: '" + images +
        "' top: 'conv1' convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: 'msra' } } }\n"
        "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv1' top: 'ip' inner_product_param { num_output: 5 "
        "weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
    ClusterSpec table = Table(1, {}, 2, 1, false);
    table.precision = RoutingTableConfig::BF16;
    table.open_device = [](Rank) {
      FakeGpu::Options options;
      options.protect = true;
      return FakeDevice(options, RoutingTableConfig::BF16);
    };
    ClusterResult result = TrainCluster(table, SolverOf(net, "", 0.02, 0.002, 5));
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.params;
  };
  const auto power = [](const std::string& top, const std::string& scale) {
    return "layer { name: 'power' type: 'Power' bottom: 'data' top: '" + top + "' power_param { scale: " + scale +
           " } }\n";
  };
  const auto alone = train("", "data");
  EXPECT_EQ(train(power("once", "1"), "once"), alone);
  const auto twice = train(power("twice", "2"), "twice");
  EXPECT_EQ(train(power("data", "2"), "data"), twice);
  EXPECT_NE(twice, alone);
}

/// A gradient that is not finite is seen by its update.
TEST_F(FakeGpuContractTest, AGradientThatIsNotFiniteEndsTheJobAtOnce) {
  ClusterSpec one = Table(1, {}, 3, 0, false);
  one.open_device = [](Rank) { return FakeDevice({}); };
  const ClusterResult later = TrainCluster(one, SolverOf(NetOfInfiniteSecondGradients(), "", 1000));
  EXPECT_THAT(later.status.message(), testing::HasSubstr("iteration 1: layer \"conv1\" produced a NaN or infinity"));
  for (const char* layer : {"conv1", "ip1"}) {
    const std::string solver = SolverOf(NetOfInfiniteGradients(layer), "");
    for (ClusterSpec table : {Table(1, {}, 3, 0, false), Table(2, {1}, 2, 0, false)}) {
      SCOPED_TRACE(layer + (" under " + Describe(table)));
      table.open_device = [](Rank) { return FakeDevice({}); };
      const ClusterResult result = TrainCluster(table, solver);
      EXPECT_EQ(result.status.code(), StatusCode::kNumeric);
      EXPECT_THAT(result.status.message(),
                  testing::HasSubstr("iteration 0: layer \"" + std::string(layer) + "\" produced a NaN or infinity"));
    }
  }
}

/// Images cross as the bytes of their records: a quarter of what they are as floats.
TEST_F(FakeGpuContractTest, BringsBytesOfImages) {
  constexpr int kRows = 11, kSubBatches = 2, kIterations = 4;
  constexpr int64_t kValues = 3 * 10 * 10;
  ClusterSpec table = Table(1, {}, 3, 0, false);
  std::atomic<size_t> uploaded{0};
  table.open_device = [&](Rank) {
    FakeGpu::Options options;
    options.on_close = [&](const FakeGpu& gpu) { uploaded = gpu.uploaded(); };
    return FakeDevice(options);
  };
  const auto train = [&](int iterations) {
    const ClusterResult result = TrainCluster(table, Solver("", false, iterations));
    EXPECT_TRUE(result.status.ok()) << result.status;
    return uploaded.load();
  };
  const size_t few = train(3), images = kIterations * kSubBatches * RawImagesBytes(kRows, kValues);
  const size_t more = train(3 + kIterations) - few;
  EXPECT_GE(more, images);
  EXPECT_LT(more, kIterations * kSubBatches * kRows * kValues * sizeof(float) / 2) << "with labels and numbers";
}

/// Also the last backward pass of replicas, which gives their gradients to the exchange: in pieces of a bucket of
/// gradients, 4 MiB, or of the rest.
TEST_F(FakeGpuContractTest, RepeatsTheLastBackwardPassOfReplicas) {
  constexpr int kReplicas = 2, kSubBatches = 2;
  const auto product = [](const std::string& name, const std::string& bottom, int outputs) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + name +
           "' inner_product_param { num_output: " + std::to_string(outputs) + " weight_filler { type: 'xavier' } } }\n";
  };
  const auto net = [&](int outputs) {
    return "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 6 "
           "kernel_size: 3 weight_filler { type: 'xavier' } } }\n" +
           product("ip1", "conv1", outputs) + "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n" +
           product("ip2", "ip1", outputs) + "layer { name: 'tanh2' type: 'TanH' bottom: 'ip2' top: 'ip2' }\n" +
           product("ip3", "ip2", 5) +
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' }\n";
  };
  for (const auto& [outputs, pieces] : {std::pair{30, 1}, std::pair{1100, 2}}) {  // ip2 has 4.8 MB
    std::atomic<int> recorded{0}, repeated{0};
    const auto train = [&, outputs = outputs](int iterations, bool repeats) {
      ClusterSpec table = Table(kReplicas, {}, 1, 1, false);
      table.device_copies = TransportConfig::OFF;
      table.open_device = [&, repeats](Rank rank) {
        FakeGpu::Options options{.index = rank, .seed = static_cast<uint32_t>(rank + 1), .protect = true};
        options.repeats = repeats;
        options.on_close = [&](const FakeGpu& gpu) {
          recorded += gpu.recorded();
          repeated += gpu.repeated();
        };
        return FakeDevice(options);
      };
      recorded = repeated = 0;
      const ClusterResult result = TrainCluster(table, SolverOf(net(outputs), "", 0.02, 0.002, iterations));
      EXPECT_TRUE(result.status.ok()) << result.status;
      return result;
    };
    const ClusterResult direct = train(7, false);
    EXPECT_EQ(recorded + repeated, 0);
    train(3, true);
    const int few_recorded = recorded, few_repeated = repeated;
    const ClusterResult result = train(7, true);
    EXPECT_EQ(result.params, direct.params) << "the same kernels in the same order";
    EXPECT_EQ(result.losses, direct.losses);
    EXPECT_EQ(recorded, few_recorded) << "all in the second iteration";
    EXPECT_EQ(repeated - few_repeated, 4 * kReplicas * (kSubBatches + kSubBatches - 1 + pieces))
        << "forward passes, backward passes, and the pieces of the last one, with " << outputs << " outputs";
  }
}

/// What the host has not heard of yet, in a job of which the GPU keeps back that anything is done.
class FollowedTasks {
 public:
  /// The next iteration's forward pass is about to be enqueued.
  void Reached() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    reached_ = true;
    changed_.SignalAll();
  }
  /// Waits for that, a long time at most. @return whether it came.
  bool Await() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!reached_ && std::chrono::steady_clock::now() < deadline) {
      changed_.WaitFor(&mutex_, std::chrono::milliseconds(100));
    }
    return reached_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool reached_ HP_GUARDED_BY(mutex_) = false;
};

/// All of an iteration and the forward pass of the next one are in the GPU's queues before the host hears that the
/// first of them is done.
TEST_F(FakeGpuContractTest, AnIterationFollowsTheOneBeforeInTheQueues) {
  constexpr int64_t kHeld = 3;  // no test stands in front of the next one
  ClusterSpec table = Table(1, {}, 1, 1, false);
  FakeGpu* gpu = nullptr;
  table.open_device = [&gpu](Rank) -> StatusOr<NodeDevice> {
    HP_ASSIGN_OR_RETURN(NodeDevice device, FakeDevice({.protect = true}));
    gpu = static_cast<FakeGpu*>(device.device.get());
    return device;
  };
  const std::string solver = Solver("", false, 8);
  const ClusterResult reference = TrainCluster(table, solver);
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  FollowedTasks followed;
  std::vector<Task::Kind> held;
  bool holds = false;
  std::optional<Thread> releaser;
  table.before_task = [&](Rank, const Task& task) {
    if (task.clock == kHeld && task.kind == Task::kForward && held.empty()) {
      gpu->Hold();
      holds = true;
      releaser.emplace("releaser", [&] {
        EXPECT_TRUE(followed.Await()) << "the next iteration waits for the host";
        gpu->Release();
      });
    }
    if (!holds) return;
    held.push_back(task.kind);
    if (task.clock != kHeld + 1 || task.kind != Task::kForward) return;
    holds = false;
    followed.Reached();
  };
  const ClusterResult result = TrainCluster(table, solver);
  if (releaser) releaser->Join();
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.params, reference.params);
  EXPECT_THAT(held, testing::ElementsAre(Task::kForward, Task::kBackward, Task::kForward, Task::kBackward,
                                         Task::kUpdate, Task::kFinishClock, Task::kBoundary, Task::kForward));
}

/// A run whose GPU is empty before each task, so that no two tasks are in its queues at once, and runs whose tasks
/// follow each other there, in which queues take turns at random: whatever they share is ordered, so the bits are the
/// same.
TEST_F(FakeGpuContractTest, TasksInTheQueuesTogetherGiveTheBitsOfOneAtATime) {
  ClusterSpec scaled = Table(1, {}, 2, 1, false);
  scaled.precision = RoutingTableConfig::FP16;
  scaled.loss_scaling.emplace().set_initial(4);
  const std::string plain = Solver("", false, 12), clipped = Solver("clip_gradients: 0.8", false, 12);
  for (const auto& [table, solver] :
       {std::pair{Table(1, {}, 1, 1, false), plain}, std::pair{Table(1, {}, 3, 1, false), plain},
        std::pair{Table(1, {}, 3, 2, false), clipped}, std::pair{scaled, plain},
        std::pair{Table(2, {}, 2, 1, false), plain}, std::pair{Table(1, {2}, 2, 1, false), clipped}}) {
    SCOPED_TRACE(Describe(table));
    const auto train = [&, &table = table, &solver = solver](uint32_t seed, bool one_at_a_time) {
      ClusterSpec spec = table;
      spec.device_copies = TransportConfig::OFF;
      std::map<Rank, FakeGpu*> gpus;
      Mutex mutex;  // nodes open their devices at once
      spec.open_device = [&](Rank rank) -> StatusOr<NodeDevice> {
        HP_ASSIGN_OR_RETURN(NodeDevice device,
                            FakeDevice({.index = rank, .seed = seed + rank, .protect = true}, spec.precision));
        MutexLock lock(&mutex);
        gpus[rank] = static_cast<FakeGpu*>(device.device.get());
        return device;
      };
      if (one_at_a_time) {
        spec.before_task = [&](Rank rank, const Task&) {
          FakeGpu* gpu = nullptr;
          {
            MutexLock lock(&mutex);
            gpu = gpus.at(rank);
          }
          EXPECT_TRUE(gpu->Synchronize().ok());
        };
      }
      return TrainCluster(spec, solver);
    };
    const ClusterResult reference = train(1, true);
    ASSERT_TRUE(reference.status.ok()) << reference.status;
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      const ClusterResult result = train(seed, false);
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.params, reference.params) << "seed " << seed;
      EXPECT_EQ(result.losses, reference.losses) << "seed " << seed;
    }
  }
}

/// A table that does not fit is refused before training, with the figures; a pool whose size the table leaves open is
/// cut to what fits, which changes no bit.
TEST_F(FakeGpuContractTest, CutsThePoolToTheGpusMemory) {
  const std::string solver = Solver("", false, 4);
  ClusterSpec table = Table(1, {}, 2, 0, false);
  std::atomic<size_t> peak{0};
  const auto train = [&](size_t memory_bytes) {
    table.open_device = [&peak, memory_bytes](Rank) {
      FakeGpu::Options options;
      options.memory_bytes = memory_bytes;
      options.on_close = [&peak](const FakeGpu& gpu) { peak = gpu.peak_bytes(); };
      return FakeDevice(options);
    };
    return TrainCluster(table, solver);
  };
  const ClusterResult roomy = train(size_t{1} << 28);
  const size_t peak_with_room = peak;
  ASSERT_TRUE(roomy.status.ok()) << roomy.status;
  ClusterResult tight;
  int refused = 0;
  for (size_t memory_bytes = 450'000; memory_bytes < 4'000'000; memory_bytes += 8'192) {
    tight = train(memory_bytes);
    if (tight.status.ok()) break;
    ++refused;
    EXPECT_EQ(tight.status.code(), StatusCode::kInvalidArgument) << tight.status;
    EXPECT_THAT(tight.status.message(), testing::ContainsRegex("needs .* MB, cuda:0 has free .* MB; memory: param"));
  }
  EXPECT_GT(refused, 0);
  ASSERT_TRUE(tight.status.ok()) << tight.status;
  EXPECT_EQ(roomy.params, tight.params);
  EXPECT_LT(peak, peak_with_room);
}

/// A GPU that fails ends the job: our own fault here, a lost node for the others.
TEST_F(FakeGpuContractTest, AFailingGpuEndsTheJob) {
  ClusterSpec table = Table(1, {1}, 2, 0, false);
  FakeGpu* gpu = nullptr;
  table.open_device = [&gpu](Rank rank) -> StatusOr<NodeDevice> {
    if (rank == 0) return OpenNodeDevice("cpu", RoutingTableConfig::FP32);
    HP_ASSIGN_OR_RETURN(NodeDevice device, FakeDevice({.index = 3}));
    gpu = static_cast<FakeGpu*>(device.device.get());
    return device;
  };
  table.on_loss = [&gpu](int64_t clock) {
    if (clock == 4) gpu->Fail(InternalError("cuda:3: fell off the bus"));
  };
  const ClusterResult result = TrainCluster(table, Solver(""));
  EXPECT_EQ(result.status.code(), StatusCode::kInternal);
  EXPECT_THAT(result.status.message(), testing::HasSubstr("fell off the bus"));
  EXPECT_EQ(result.losses.count(10), 0u);
}

/// Also when the failure is known before the next task is given to the GPU.
TEST_F(FakeGpuContractTest, AGpuThatFailsBetweenTwoTasksEndsTheJob) {
  ClusterSpec table = Table(1, {}, 3, 0, false);
  FakeGpu* gpu = nullptr;
  table.open_device = [&gpu](Rank) -> StatusOr<NodeDevice> {
    HP_ASSIGN_OR_RETURN(NodeDevice device, FakeDevice({}));
    gpu = static_cast<FakeGpu*>(device.device.get());
    return device;
  };
  int tasks = 0;
  table.before_task = [&](Rank, const Task& task) {
    if (task.kind == Task::kBoundary) return;
    if (++tasks == 1) gpu->Hold();
    if (tasks != 2) return;
    gpu->Fail(InternalError("cuda:0: fell off the bus"));
    gpu->AwaitTold();
  };
  const ClusterResult result = TrainCluster(table, Solver(""));
  EXPECT_THAT(result.status.message(), testing::HasSubstr("fell off the bus"));
  EXPECT_GE(tasks, 2);
}

}  // namespace
}  // namespace hp::test
