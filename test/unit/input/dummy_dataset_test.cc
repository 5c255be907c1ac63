#include "input/dummy_dataset.h"

#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace hp {
namespace {

using testing::HasSubstr;

/// @param labels of a row of top 1, that are classes.
StatusOr<std::unique_ptr<Dataset>> OpenDummy(const std::string& tops, const std::string& param,
                                             std::vector<int64_t> labels = {0}) {
  caffe::LayerParameter layer;
  const std::string text = "name: 'data' type: 'DummyData' " + tops + " dummy_data_param { " + param + " }";
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &layer));
  return DummyDataset::Open(layer, {{1, std::move(labels)}}, {});
}

std::unique_ptr<Dataset> Opened(const std::string& param) {
  auto dataset = OpenDummy("top: 'x' top: 'label'", param);
  CHECK(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

caffe::Datum RecordOf(Dataset* dataset, int64_t record) {
  caffe::Datum datum;
  const Status status = dataset->ReadDatum(record, &datum);
  CHECK(status.ok()) << status;
  return datum;
}

float LabelOf(Dataset* dataset, int64_t record) {
  float label = -1;
  CHECK(dataset->ReadTop(record, 1, {}, &label).ok());
  return label;
}

constexpr char kShapes[] = "shape { dim: 6 dim: 3 dim: 50 dim: 40 } shape { dim: 6 } ";

TEST(DummyDataset, ConstantsAndZeros) {
  const auto zeros = Opened(kShapes);
  const caffe::Datum zero = RecordOf(zeros.get(), 7);
  EXPECT_EQ(Shape({zero.channels(), zero.height(), zero.width()}), Shape({3, 50, 40}));
  ASSERT_EQ(zero.float_data_size(), 6000);
  EXPECT_EQ(zero.float_data(5999), 0);
  EXPECT_EQ(LabelOf(zeros.get(), 7), 0);
  const auto ones = Opened(std::string(kShapes) + "data_filler { value: 0.5 } data_filler { value: 2.9 }");
  for (const int64_t record : {int64_t{0}, int64_t{123456789012}}) {
    const caffe::Datum one = RecordOf(ones.get(), record);
    for (const float value : one.float_data()) ASSERT_EQ(value, 0.5f);
    EXPECT_EQ(LabelOf(ones.get(), record), 2) << "cut, not rounded";
  }
  EXPECT_NE(zeros->Fingerprint(), ones->Fingerprint());
}

TEST(DummyDataset, OneShapeOfOldFieldsAndNoLabel) {
  auto dataset = OpenDummy("top: 'x'", "num: 4 channels: 2 height: 1 width: 5");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const caffe::Datum datum = RecordOf(dataset->get(), 0);
  EXPECT_EQ(Shape({datum.channels(), datum.height(), datum.width()}), Shape({2, 1, 5}));
  EXPECT_TRUE(OpenDummy("top: 'x' top: 'l'", "num: 4 channels: 2 channels: 1 height: 1 width: 5 width: 1").ok());
}

TEST(DummyDataset, RandomRecordsDifferAndAreTheSameEachTime) {
  const std::string param = std::string(kShapes) + "data_filler { type: 'gaussian' mean: 2 std: 3 } " +
                            "data_filler { type: 'uniform' min: 0 max: 4.999 }";
  const auto first = Opened(param), second = Opened(param);
  EXPECT_EQ(first->Fingerprint(), second->Fingerprint());
  std::set<float> values;
  std::set<int> labels;
  double sum = 0, squares = 0;
  for (int64_t record = 59; record >= 0; --record) {
    const caffe::Datum datum = RecordOf(first.get(), record);
    // Alone, and not in the order of records.
    ASSERT_EQ(datum.SerializeAsString(), RecordOf(second.get(), record).SerializeAsString());
    for (const float value : datum.float_data()) sum += value, squares += value * value;
    for (const int i : {0, 1, 4095, 4096, 4097, 5999}) values.insert(datum.float_data(i));
    labels.insert(static_cast<int>(LabelOf(first.get(), record)));
  }
  EXPECT_EQ(values.size(), 360u) << "no number stands twice";
  EXPECT_EQ(labels, (std::set<int>{0, 1, 2, 3, 4}));
  const double count = 60 * 6000, mean = sum / count;
  EXPECT_NEAR(mean, 2, 0.05);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 3, 0.05);
}

TEST(DummyDataset, SeveralLabelsInARow) {
  const std::string shapes =
      "shape { dim: 4 dim: 2 dim: 3 dim: 3 } shape { dim: 4 dim: 1 dim: 3 dim: 3 } data_filler { } "
      "data_filler { type: 'uniform' min: 0 max: 2.999 }";
  const auto dataset = *OpenDummy("top: 'x' top: 'label'", shapes, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(dataset->top_shape(1), (Shape{1, 3, 3}));
  std::set<float> seen;
  std::vector<float> labels(9), again(9), first(9);
  for (int64_t record = 0; record < 8; ++record) {
    ASSERT_TRUE(dataset->ReadTop(record, 1, {}, labels.data()).ok());
    ASSERT_TRUE(dataset->ReadTop(record, 1, {}, again.data()).ok());
    EXPECT_EQ(labels, again);
    if (record == 0) first = labels;
    seen.insert(labels.begin(), labels.end());
  }
  EXPECT_EQ(seen, (std::set<float>{0, 1, 2}));
  EXPECT_NE(labels, first);
  EXPECT_EQ(Opened(kShapes)->top_shape(1), Shape());
  std::vector<float> some(9);
  ASSERT_TRUE((*OpenDummy("top: 'x' top: 'label'", shapes, {2}))->ReadTop(0, 1, {}, some.data()).ok());
  EXPECT_EQ(some[2], first[2]) << "a class";
  EXPECT_NE(some[1], std::trunc(some[1])) << "another number of the row";
}

// Targets of a regression, say.
TEST(DummyDataset, NumbersThatAreNoClassesStayAsTheyAre) {
  caffe::LayerParameter layer;
  const std::string text =
      "name: 'data' type: 'DummyData' top: 'x' top: 'y' top: 'z' dummy_data_param { shape { dim: 4 dim: 3 } "
      "shape { dim: 4 } shape { dim: 4 dim: 2 } data_filler { } data_filler { value: 2.5 } "
      "data_filler { value: -0.5 } }";
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &layer));
  const auto dataset = DummyDataset::Open(layer, {}, {});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->tops(), 3);
  EXPECT_EQ(LabelOf(dataset->get(), 3), 2.5f);
  EXPECT_EQ((*dataset)->top_shape(2), Shape{2});
  float row[2] = {};
  ASSERT_TRUE((*dataset)->ReadTop(9, 2, {}, row).ok());
  EXPECT_EQ(row[1], -0.5f);
}

TEST(DummyDataset, WhatTheLayerSaysWrongIsRefused) {
  const auto error = [](const std::string& tops, const std::string& param) {
    return OpenDummy(tops, param).status().message();
  };
  EXPECT_THAT(
      error("top: 'x' top: 'l'", "shape { dim: 2 dim: 3 } shape { dim: 4 }"),
      HasSubstr("layer \"data\": top \"l\" has the shape [4]; expected [2] or [2, ...], as many rows as top \"x\""));
  EXPECT_THAT(error("top: 'x'", "shape { dim: 2 dim: 2000000000 }"),
              HasSubstr("rows of top \"x\", [2 2000000000], are too large"));
  auto dataset = OpenDummy("top: 'x' top: 'l'", "shape { dim: 2 } data_filler { value: 3e9 }");
  EXPECT_THAT(dataset.status().message(), HasSubstr("its filler makes the label 3e+09"));
}

}  // namespace
}  // namespace hp
