// convolution_engines: TIMED, over fake GPUs whose library has three engines for each convolution: what a first start
// chooses lies beside the snapshots, and later ones choose the same without timing anything.
#include "backend/cuda/engine_chooser.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/fake_device.h"
#include "test/support/log_lines.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

namespace hp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Loops on the host; that one of three engines computes them is only said.
class ChoosingLibrary : public GpuLibrary {
 public:
  ChoosingLibrary(Gpu* gpu, EngineChoices* engines, const std::string& kind, std::atomic<int>* timed)
      : library_(MakeHostGpuLibrary(gpu)), chooser_(engines, kind, "fake cuDNN"), timed_(timed) {}

  ElementType element() const override { return library_->element(); }
  int64_t channel_pack() const override { return library_->channel_pack(); }
  StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) override { return library_->Gemm(desc); }
  StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) override {
    const std::string operation = "convolution of [" + in.ToString() + "]";
    if (!chooser_.Kept(operation)) {
      const std::vector<EngineChoice> candidates = {{1, {{7, 1}}}, {1, {{7, 2}}}, {2, {}}};
      HP_RETURN_IF_ERROR(chooser_
                             .Choose(operation, candidates,
                                     [this](size_t candidate) -> StatusOr<double> {
                                       ++*timed_;
                                       return candidate == 1 ? 1.0 : 2.0;
                                     })
                             .status());
    }
    return library_->Convolution(desc, in);
  }
  StatusOr<std::unique_ptr<GpuJpegDecoder>> JpegDecoder() override { return library_->JpegDecoder(); }

 private:
  const std::unique_ptr<GpuLibrary> library_;
  EngineChooser chooser_;
  std::atomic<int>* const timed_;
};

class EnginesContractTest : public ContractTest {
 protected:
  /// Conv replicas on GPUs of kind `gpu_`, and a shard on processors.
  ClusterSpec TimedTable(int replicas) {
    ClusterSpec table = Table(replicas, {1}, 2, 0, false);
    table.device_of = [replicas](Rank rank) { return rank < replicas ? "cuda:" + std::to_string(rank) : "cpu"; };
    table.open_timed_device = [this, replicas](Rank rank, EngineChoices* engines) -> StatusOr<NodeDevice> {
      EXPECT_EQ(engines != nullptr, rank < replicas);
      if (engines == nullptr) return OpenNodeDevice("cpu", RoutingTableConfig::FP32);
      const auto make_library = [this, engines](Gpu* gpu, GpuMath) -> StatusOr<std::unique_ptr<GpuLibrary>> {
        return std::unique_ptr<GpuLibrary>(std::make_unique<ChoosingLibrary>(gpu, engines, gpu_, &timed_));
      };
      return MakeGpuDevice(std::make_unique<FakeGpu>(FakeGpu::Options{.index = rank}), make_library,
                           RoutingTableConfig::FP32);
    };
    return table;
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string gpu_ = "fake GPU";
  std::atomic<int> timed_{0};
};

TEST_F(EnginesContractTest, ChoicesLieBesideTheSnapshotsAndAreUsedAgain) {
  const std::string prefix = NewPrefix();
  const std::string solver = Solver("snapshot: 4 snapshot_prefix: '" + prefix + "'", false, 6);
  const ClusterSpec table = TimedTable(2);
  const ClusterResult first = Train(table, solver);
  EXPECT_GT(timed_, 0);
  EXPECT_EQ(timed_ % 3, 0);
  std::map<int, std::string> texts;
  for (const int rank : {0, 1}) {
    texts[rank] = TextOf(prefix + "_engines_" + std::to_string(rank) + ".prototxt");
    EXPECT_THAT(texts[rank], HasSubstr("gpu: \"fake GPU\"\n  library: \"fake cuDNN\"\n  engine: 1\n  knob {\n    type: "
                                       "7\n    value: 2\n  }\n  ms: 1\n  heuristics_ms: 2\n"));
  }
  EXPECT_FALSE(std::filesystem::exists(prefix + "_engines_2.prototxt")) << "of a node on processors";

  timed_ = 0;
  const ClusterResult second = Train(table, solver);
  EXPECT_EQ(timed_, 0);
  EXPECT_EQ(first.params, second.params);
  LogLines warnings(google::GLOG_WARNING);
  ClusterSpec resumed = table;
  resumed.resume = prefix + "_iter_4.solverstate";
  EXPECT_EQ(Train(resumed, solver).params, first.params);
  EXPECT_EQ(timed_, 0);
  EXPECT_THAT(warnings.With("engines"), IsEmpty());
  for (const auto& [rank, text] : texts) {
    EXPECT_EQ(TextOf(prefix + "_engines_" + std::to_string(rank) + ".prototxt"), text);
  }
}

/// A run that goes on without its choices says so; and so does one on another kind of GPU, which keeps the others.
TEST_F(EnginesContractTest, WhatMayChangeBitsIsSaid) {
  const std::string prefix = NewPrefix(), file = prefix + "_engines_0.prototxt";
  const std::string solver = Solver("snapshot: 2 snapshot_prefix: '" + prefix + "'", false, 3);
  ClusterSpec table = TimedTable(1);
  (void)Train(table, solver);
  const int operations = timed_ / 3;
  const std::string text = TextOf(file);
  std::filesystem::remove(file);
  table.resume = prefix + "_iter_2.solverstate";
  {
    LogLines warnings(google::GLOG_WARNING);
    (void)Train(table, solver);
    EXPECT_EQ(timed_, 6 * operations);
    EXPECT_THAT(warnings.With("engines of " + std::to_string(operations) + " operation(s) were chosen anew, since " +
                              file + " did not have them"),
                SizeIs(1));
    EXPECT_EQ(TextOf(file), text);
  }
  gpu_ = "another GPU";
  LogLines warnings(google::GLOG_WARNING);
  (void)Train(table, solver);
  EXPECT_EQ(timed_, 9 * operations);
  EXPECT_THAT(warnings.With(file + ": its engines were chosen on fake GPU with fake cuDNN, and this is another GPU"),
              SizeIs(1));
  gpu_ = "fake GPU";
  (void)Train(table, solver);
  EXPECT_EQ(timed_, 9 * operations) << "its own choices are still there";
}

TEST_F(EnginesContractTest, ADamagedFileEndsTheStart) {
  const std::string prefix = NewPrefix(), file = prefix + "_engines_0.prototxt";
  const std::string solver = Solver("snapshot_prefix: '" + prefix + "'", false, 3);
  WriteFile(file, "entry {\n  operation: \"conv\"\n  engine: 3\n}\nxxh64: 5\n");
  const Status status = TrainCluster(TimedTable(1), solver).status;
  EXPECT_EQ(ExitStatus(status), 2) << status;
  EXPECT_THAT(status.message(), HasSubstr(file + ":5: the file is damaged"));
  EXPECT_EQ(timed_, 0);
}

}  // namespace
}  // namespace hp::test
