// Labels are checked for each layer that reads them: its own classes, its own ignored label.
#include "test/support/local_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hp::test {
namespace {

using testing::HasSubstr;

/// A net of two losses over one label blob, whose labels are 0 to 4.
class LabelsOfTwoLosses : public testing::Test {
 protected:
  LabelsOfTwoLosses() { WriteRandomImages(folder_ / "train", 40, 1, 4, 5, 1); }

  static std::string Loss(const std::string& name, int classes, const std::string& loss_param) {
    return "layer { name: '" + name + "_scores' type: 'InnerProduct' bottom: 'hidden' top: '" + name +
           "_scores' inner_product_param { num_output: " + std::to_string(classes) +
           " weight_filler { type: 'xavier' } } }\n"
           "layer { name: '" +
           name + "' type: 'SoftmaxWithLoss' bottom: '" + name + "_scores' bottom: 'label' top: '" + name +
           "' loss_param { " + loss_param + " } }\n";
  }

  Status Train(const std::string& first, const std::string& second) {
    WriteFile(folder_ / "net.prototxt",
              "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" + folder_ / "train" +
                  "' batch_size: 40 } }\n"
                  "layer { name: 'hidden' type: 'InnerProduct' bottom: 'data' top: 'hidden' inner_product_param { "
                  "num_output: 8 weight_filler { type: 'xavier' } } }\n" +
                  first + second);
    const std::string solver = folder_ / "solver.prototxt";
    WriteFile(solver, "net: '" + folder_ / "net.prototxt" +
                          "' base_lr: 0.0001 lr_policy: 'fixed' max_iter: 2 random_seed: 7 snapshot_after_train: "
                          "false\n");
    return TrainCluster({}, solver).status;
  }

  TempFolder folder_;
};

TEST_F(LabelsOfTwoLosses, EachHasItsOwnIgnoredLabelAndClasses) {
  const std::string ignores = Loss("ignores", 4, "ignore_label: 4"), counts = Loss("counts", 5, "");
  Status status = Train(ignores, counts);
  EXPECT_TRUE(status.ok()) << status;
  status = Train(counts, ignores);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(LabelsOfTwoLosses, WhatOneIgnoresTheOtherStillRefuses) {
  const std::string ignores = Loss("ignores", 4, "ignore_label: 4"), counts = Loss("counts", 4, "");
  for (const Status& status : {Train(ignores, counts), Train(counts, ignores)}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("layer \"counts\", batch 0, rows from 0: label 4 of row"));
  }
}

}  // namespace
}  // namespace hp::test
