#include "solvers/check.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include <string>

namespace hp {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kGood[] = "net: 'net.prototxt' base_lr: 0.01 max_iter: 100 lr_policy: 'fixed' ";

caffe::SolverParameter Parse(const std::string& text) {
  caffe::SolverParameter solver;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &solver)) << text;
  return solver;
}

TEST(CheckSolver, AcceptsCaffesOwnExamples) {
  EXPECT_TRUE(CheckSolver(Parse(kGood)).ok());
  const Status quick = CheckSolver(Parse(
      "net: 'cifar10_quick_train_test.prototxt' test_iter: 100 test_interval: 500 base_lr: 0.001 momentum: 0.9 "
      "weight_decay: 0.004 lr_policy: 'fixed' display: 100 max_iter: 4000 snapshot: 4000 snapshot_prefix: 'quick' "
      "solver_mode: GPU"));
  EXPECT_TRUE(quick.ok()) << quick;
  const Status all = CheckSolver(
      Parse("net: 'a' test_iter: 1 test_interval: 1 test_initialization: false base_lr: 1 momentum: 0.9 "
            "max_iter: 5 lr_policy: 'inv' gamma: 1 power: 1 iter_size: 2 clip_gradients: 35 regularization_type: 'L1' "
            "weight_decay: 0.1 average_loss: 20 random_seed: 7 type: 'SGD' snapshot_format: HDF5 debug_info: true "
            "test_compute_loss: true weights: 'a,b'"));
  EXPECT_TRUE(all.ok()) << all;
  const Status unused = CheckSolver(Parse(std::string(kGood) + "regularization_type: 'none'"));
  EXPECT_TRUE(unused.ok()) << unused << ": nothing decays";
  const Status larc = CheckSolver(Parse(std::string(kGood) + "larc: true larc_policy: 'clip' larc_eta: 0.002"));
  EXPECT_TRUE(larc.ok()) << larc;
}

struct BadCase {
  const char* text;
  const char* message;
};

class BadSolver : public testing::TestWithParam<BadCase> {};

TEST_P(BadSolver, IsNamed) {
  caffe::SolverParameter solver = Parse(kGood);
  solver.MergeFrom(Parse(GetParam().text));
  const Status status = CheckSolver(solver);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << GetParam().text;
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    CheckSolver, BadSolver,
    testing::Values(
        BadCase{"type: 'Adam' momentum: 1", "momentum: 1; expected at least 0, and less than 1"},
        BadCase{"type: 'Adam' momentum2: 1", "momentum2: 1; expected"}, BadCase{"type: 'Adam' delta: -1", "delta: -1"},
        BadCase{"type: 'AdaDelta' momentum: 1.5", "momentum: 1.5; expected at least 0, and less than 1"},
        BadCase{"type: 'AdaDelta' delta: 0", "delta: 0; expected more than 0"},
        BadCase{"type: 'AdaGrad' momentum: 0.9", "momentum: 0.9; expected none, since AdaGrad has no momentum"},
        BadCase{"type: 'RMSProp' delta: -1", "delta: -1"}, BadCase{"type: 'RMSProp' rms_decay: 1", "rms_decay: 1"},
        BadCase{"type: 'Sgd'", "type: \"Sgd\" is not a solver type"}, BadCase{"base_lr: nan", "base_lr: "},
        BadCase{"momentum: nan", "momentum: "}, BadCase{"weight_decay: inf", "weight_decay: inf"},
        BadCase{"clip_gradients: nan", "clip_gradients: "}, BadCase{"iter_size: 0", "iter_size: 0"},
        BadCase{"max_iter: -5", "max_iter: -5"}, BadCase{"display: -1", "display: -1"},
        BadCase{"average_loss: 0", "average_loss: 0"},
        BadCase{"weight_decay: 0.1 regularization_type: 'L3'", "regularization_type: \"L3\"; expected L1 or L2"},
        BadCase{"larc_eta: 0.1", "larc: missing; larc_policy and larc_eta need it"},
        BadCase{"larc: true larc_policy: 'auto'", "larc_policy: \"auto\"; expected scale or clip"},
        BadCase{"larc: true larc_eta: 0", "larc_eta: 0; expected a finite number above 0"},
        BadCase{"lr_policy: 'step'", "\"step\" needs stepsize"}, BadCase{"test_iter: 5", "test_interval: missing"},
        BadCase{"test_iter: -1 test_interval: 5", "test_iter: -1; expected at least 1"},
        BadCase{"rms_decay: nan", "rms_decay: nan; expected a finite number"},
        BadCase{"gamma: inf", "gamma: inf; expected a finite number"},
        BadCase{"snapshot: 10", "snapshot_prefix: missing"}, BadCase{"snapshot: -1", "snapshot: -1"}));

TEST(CheckSolver, NamesAllFaultsOfAnEmptyFile) {
  const Status status = CheckSolver({});
  EXPECT_THAT(status.message(), Not(HasSubstr("base_lr"))) << "it is 0, as in Caffe";
  EXPECT_THAT(status.message(), Not(HasSubstr("max_iter"))) << "it is 0, as in Caffe";
  EXPECT_THAT(status.message(), HasSubstr("lr_policy: missing"));
  EXPECT_THAT(status.message(), HasSubstr("net: missing"));
}

TEST(SolverWarnings, NameWhatIsMissingOrInVain) {
  EXPECT_THAT(SolverWarnings(Parse(kGood)), testing::IsEmpty());
  const auto vain = Parse(
      "net: 'a' lr_policy: 'multistep' stepvalue: 5 stepvalue: 3 snapshot_diff: true "
      "layer_wise_reduce: false");
  EXPECT_TRUE(CheckSolver(vain).ok()) << CheckSolver(vain);
  EXPECT_THAT(SolverWarnings(vain),
              testing::ElementsAre(HasSubstr("layer_wise_reduce: false has no effect"),
                                   HasSubstr("snapshot_diff: true has no effect"), HasSubstr("max_iter: missing"),
                                   HasSubstr("base_lr: missing, so it is 0, as in Caffe"),
                                   HasSubstr("gamma: missing, so it is 0"), HasSubstr("stepvalue: not in increasing")));
  const auto climbing = Parse("net: 'a' base_lr: -1 weight_decay: -0.5 max_iter: 5 lr_policy: 'fixed'");
  EXPECT_TRUE(CheckSolver(climbing).ok()) << CheckSolver(climbing);
  EXPECT_THAT(SolverWarnings(climbing),
              testing::ElementsAre("base_lr: -1 is negative, so the loss is climbed, as in Caffe",
                                   "weight_decay: -0.5 is negative, so weights grow, as in Caffe"));
  EXPECT_THAT(SolverWarnings(Parse("base_lr: 1 max_iter: 5 lr_policy: 'poly'")),
              testing::ElementsAre("power: missing, so it is 0, as in Caffe; lr_policy: \"poly\" goes by it"));
}

}  // namespace
}  // namespace hp
