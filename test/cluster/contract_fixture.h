#pragma once

#include "test/support/local_cluster.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hp::test {

/// What ends the net: fields of the last product's inner_product_param, and of the layer of the loss.
struct NetHead {
  std::string product = "num_output: 5", loss = "";
};

/// What ends a net with a label for each pixel (ContractTest::SolverOfPixels).
struct PixelHead {
  std::string loss = "type: 'SoftmaxWithLoss' loss_param { ignore_label: 0 }";
  std::string accuracy = "ignore_label: 0";
  int channels = 5;                              ///< of the scores
  std::string labels = "min: -0.99 max: 2.999";  ///< half of them are 0
  std::string label_dims = "dim: 1 dim: 9 dim: 8";
  double base_lr = 0.1;
};

/// A data set, nets and solvers in a folder; its own net is one with everything that depends on where a sample or a
/// channel is (dropout, crops, mirrors, LRN, ignored labels, iter_size, uneven divisions).
class ContractTest : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  /// Writes a solver and its net. @return the solver's path.
  /// @param extra fields; without a type it is SGD with momentum.
  /// @param loss_weight learning rate and decay make up for it, so that it only makes gradients larger.
  static std::string Solver(const std::string& extra, bool frozen = false, int iterations = 50, double loss_weight = 1,
                            const NetHead& head = {});
  /// The same for a net of its own. @param layers behind Data layers with tops "data", of 3 x 10 x 10,
  /// and "label", below 5.
  static std::string SolverOf(const std::string& layers, const std::string& extra, double base_lr = 0.02,
                              double weight_decay = 0.002, int iterations = 50);
  /// The same for a net with sources of its own.
  static std::string SolverOfNet(const std::string& layers, const std::string& extra = "", double base_lr = 0.02,
                                 double weight_decay = 0.002, int iterations = 50);
  /// A solver whose net scores each pixel of images of 9 x 8: down, a classifier of products ("deep/..."), up again,
  /// and cropped to the image.
  static std::string SolverOfPixels(const PixelHead& head);
  /// Trains under every table and compares all parameters and losses with one process on one CPU.
  static void Check(const std::string& solver, const std::vector<ClusterSpec>& tables);
  /// The same with another table of one node for the one process, such as one with staleness.
  static void Check(const std::string& solver, const ClusterSpec& one_process, const std::vector<ClusterSpec>& tables);
  static void Compare(const ClusterResult& result, const ClusterResult& reference);
  /// The largest relative difference of a parameter.
  static double LargestDifference(const ClusterResult& a, const ClusterResult& b);
  /// What a table computes, which must not fail.
  static ClusterResult Train(const ClusterSpec& table, const std::string& solver);
  /// Trains a few iterations under every table: each parameter differs from float32's, and by little. Few, since
  /// roundings grow with each, by the units of a ReLU or a pooling window that they decide.
  /// @param tables in which something is rounded to 16 bits.
  static void CheckNearFloat32(const std::vector<ClusterSpec>& tables);
  /// The tables differ from the first one by far less than that does from `plain`, float32 under the same division:
  /// sums in another order change a last digit, and so here and there what a number is rounded to.
  static void CheckAlike(const ClusterSpec& plain, const std::vector<ClusterSpec>& rounded, double most,
                         const NetHead& head = {});
  /// A job of 10 iterations goes on from its snapshot of the fifth under another table. @param extra as Solver's.
  static void CheckGoesOnUnderAnotherTable(const std::string& extra);
  static std::string Describe(const ClusterSpec& spec);
  /// A path that nothing has yet, for snapshots.
  static std::string NewPrefix();

 private:
  static TempFolder* folder_;
};

/// Layers for ContractTest::SolverOf whose first losses are finite and whose first gradients of layer `layer` are not:
/// "conv1" behind the root of a ReLU, where it is 0, or "ip1" of large inputs.
std::string NetOfInfiniteGradients(const std::string& layer);
/// The same of "conv1", whose second gradient is the first one that is not finite if the base_lr is 1000: only its bias
/// learns, and then some outputs are below zero.
std::string NetOfInfiniteSecondGradients();

/// Layers for ContractTest::SolverOf: conv1, act1, pool1, ip1, act2, ip2 and a loss.
/// @param fields of act1 and act2, behind name, bottom and top. @param in_place whether their tops are their bottoms.
std::string NetWithActivations(const std::string& fields, bool in_place);

/// Layers for ContractTest::SolverOf as FCN has them: scores of a pooled image, enlarged by the deconvolution up1,
/// cropped to the size of conv1 and added to it; and again, for each channel alone, up2. Then pool3, ip1, ip2 and a
/// loss.
/// @param filler the weight_filler of both.
std::string NetWithDeconvolutions(const std::string& filler);

/// A DummyData layer "side" of both phases, for layers of ContractTest::SolverOf, beside whose data it is read.
/// @param tops "top: 'a' top: 'b'". @param rows of each the dims of a row, "dim: 3". @param fillers of each.
std::string SideSource(const std::string& tops, const std::vector<std::string>& rows,
                       const std::vector<std::string>& fillers);

/// `conv` replicas, FC stages of `fc` shards from ip1 (and ip2) on.
ClusterSpec Table(int conv, std::vector<int> fc, int micro, int pool, bool tcp);

/// `spec` with layers split otherwise than by outputs. @param scattered see StageConfig::Boundary.
ClusterSpec Split(const std::map<std::string, SplitConfig::By>& splits, ClusterSpec spec, bool scattered = false);

/// Trains under the table, and again with random delays on links and before tasks: the same bits.
void CheckSameBits(ClusterSpec table, const std::string& solver, const std::vector<uint64_t>& delay_seeds);

}  // namespace hp::test
