// An update of one node's parameters, from gradients that are zero: weight decay alone changes them.
#include "engine/updater.h"

#include "test/support/small_job.h"

#include "devices/devices.h"
#include <gtest/gtest.h>

#include <algorithm>

namespace hp {
namespace {

constexpr char kOneConvNode[] = R"(
    solver: "s" stage { kind: CONV } node { name: "n" stage: 0 host: "a" port: 1 })";

class UpdaterTest : public testing::Test {
 protected:
  /// @param spec of the last product's weights.
  void Build(const std::string& spec) {
    table_ = MakeTable(kOneConvNode);
    JobPlan::Options plan;
    plan.table = &*table_;
    plan.solver = Parse<caffe::SolverParameter>("max_iter: 10 base_lr: 0.25 lr_policy: 'fixed' weight_decay: 0.5");
    plan.net = std::make_shared<const caffe::NetParameter>(Parse<caffe::NetParameter>(R"(
        layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
        layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: 40 } }
        layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 50 }
                )" + spec + R"( }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })"));
    plan.samples.assign(4, Shape{5});
    StatusOr<std::unique_ptr<JobPlan>> job = JobPlan::Create(plan);
    ASSERT_TRUE(job.ok()) << job.status();
    NodeModel::Options options;
    options.backend = backend_.get();
    model_ = NodeModel::Create(*std::move(job), options).value();
    params_ = ParamStore::Create(device_.get(), model_->stored_params()).value();
    workspace_ = Workspace::Create(*model_, 1, device_.get(), params_.get()).value();
    sampler_ = std::make_unique<ClassSampler>(*model_, nullptr);
    rates_ = std::make_unique<LearningRates>(model_->job().solver());
    updater_ = Updater::Create(*model_, {.device = device_.get(),
                                         .backend = backend_.get(),
                                         .params = params_.get(),
                                         .workspace = workspace_.get(),
                                         .sampler = sampler_.get(),
                                         .rates = rates_.get()})
                   .value();
    weights_ = params_->Find("ip2", 0);
    const std::span<float> values = params_->values(weights_);
    std::fill(values.begin(), values.end(), 1.0f);
    params_->MarkUpdated(weights_);
  }

  /// The first update of the layer "ip2", in pieces.
  void Update() {
    Task task;
    task.kind = Task::kUpdate;
    while (model_->NameOf(task.group) != "ip2") ++task.group;
    ASSERT_TRUE(model_->updates_in_pieces(model_->StepOf(model_->any_net(caffe::TRAIN), task.group)));
    updater_->Update(task);
  }

  const std::unique_ptr<Device> device_ = MakeHostDevice();
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::optional<RoutingTable> table_;
  std::unique_ptr<NodeModel> model_;
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<ClassSampler> sampler_;
  std::unique_ptr<LearningRates> rates_;
  std::unique_ptr<Updater> updater_;
  int weights_ = -1;
};

TEST_F(UpdaterTest, WritesCopiesOfTheRowsThatItChanges) {
  Build("");
  int whole = 0;
  const auto copied = [&] {
    const ParamView view = params_->View(weights_);
    const int64_t row = params_->param(weights_).block.cols(), rows = params_->param(weights_).block.rows();
    const auto fill_rows = [from = view.data, row](std::byte* to, int64_t begin, int64_t end) {
      std::copy(from + begin * row, from + end * row, reinterpret_cast<float*>(to) + begin * row);
    };
    const auto fill = [&, fill_rows](std::byte* to) {
      ++whole;
      fill_rows(to, 0, rows);
    };
    const auto* const copy = reinterpret_cast<const float*>(
        view.packed->Get("copy", params_->values(weights_).size_bytes(), view.version, fill, fill_rows));
    return std::vector<float>(copy, copy + params_->count(weights_));
  };
  EXPECT_EQ(copied(), std::vector<float>(2000, 1.0f));
  Update();
  EXPECT_EQ(copied(), std::vector<float>(2000, 1 - 0.25f * 0.5f));
  EXPECT_EQ(whole, 1) << "it was copied as a whole once more";
}

TEST_F(UpdaterTest, LeavesFrozenWeightsBesideABiasThatLearns) {
  Build("param { lr_mult: 0 }");
  const uint64_t before = params_->View(weights_).version;
  const int bias = params_->Find("ip2", 1);
  const uint64_t bias_before = params_->View(bias).version;
  Update();
  EXPECT_EQ(params_->View(weights_).version, before) << "copies of what did not change would be made anew";
  EXPECT_EQ(params_->values(weights_)[0], 1);
  EXPECT_GT(params_->View(bias).version, bias_before);
}

}  // namespace
}  // namespace hp
