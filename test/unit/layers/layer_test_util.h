#pragma once

#include "layers/op_factories.h"
#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"
#include "test/unit/backend/op_test_util.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp::test {

inline caffe::LayerParameter ParseLayer(const std::string& text) {
  caffe::LayerParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  return param;
}

/// What LayerTraits::Create says of a prototxt's layer; "" when it takes it.
inline std::string CreateError(const std::string& text) {
  const caffe::LayerParameter param = ParseLayer(text);
  const auto layer = LayerTraits::Create(param, LayerTypes::BuiltIn());
  EXPECT_TRUE(layer.ok() || layer.status().code() == StatusCode::kInvalidArgument) << layer.status();
  return layer.status().message();
}

/// A layer from its text, with the op that the backend under test makes for it.
class LayerUnderTest {
 public:
  explicit LayerUnderTest(const std::string& text) : param_(ParseLayer(text)) {
    const auto layer = LayerTraits::Create(param_, LayerTypes::BuiltIn());
    EXPECT_TRUE(layer.ok()) << layer.status();
    if (layer.ok()) traits_ = *layer;
    context_.backend = UnderTest().backend.get();
    context_.seed = 7;
  }

  const LayerTraits* operator->() const { return &*traits_; }
  OpContext& context() { return context_; }

  StatusOr<std::unique_ptr<Op>> CreateOp(const std::vector<TensorDesc>& in) const {
    return OpFactories::BuiltIn().Create(*traits_, context_, in);
  }
  /// The op for inputs of these layouts. Its outputs must have the shapes that the layer says.
  /// @param labels shapes of bottoms behind them, which come as labels.
  Op* MakeOp(const std::vector<TensorDesc>& in, const std::vector<Shape>& labels = {}) {
    std::vector<Shape> shapes;
    for (const TensorDesc& desc : in) shapes.push_back(desc.shape);
    shapes.insert(shapes.end(), labels.begin(), labels.end());
    auto out = traits_->OutputShapes(shapes);
    auto op = CreateOp(in);
    EXPECT_TRUE(out.ok() && op.ok()) << out.status() << op.status();
    EXPECT_EQ(op.value()->outputs().size(), out->size());
    for (size_t i = 0; i < out->size(); ++i) EXPECT_EQ(op.value()->outputs()[i].shape, (*out)[i]);
    ops_.push_back(*std::move(op));
    return ops_.back().get();
  }

 private:
  caffe::LayerParameter param_;
  std::optional<LayerTraits> traits_;
  std::vector<std::unique_ptr<Op>> ops_;
  OpContext context_;
};

/// A layer that reads labels, over drawn scores that are the whole batch.
struct LabelledRun {
  /// @param of_batch BatchContext::batch_labels; empty: `labels`.
  LabelledRun(const std::string& text, const TensorDesc& desc, const Values& labels, const Values& of_batch = {})
      : layer(text),
        labels(labels),
        of_batch(of_batch.empty() ? labels : of_batch),
        scores(RandomValues(desc.count(), 3, -3, 3)),
        runner(layer.MakeOp({desc}, {ShapeOf(labels, desc.shape)}), {desc}) {
    runner.batch().labels = this->labels;
    runner.batch().batch_labels = this->of_batch;
    runner.batch().global_rows = desc.shape[0];
    runner.SetInput(0, scores);
    runner.SetOutputGradient(0, {1});
  }
  float Value() {
    runner.Forward();
    return runner.Output()[0];
  }
  Values Gradient() {
    runner.Forward();
    runner.BackwardInput();
    return runner.InputGradient();
  }
  /// Of labels for each element, or of as many for each row.
  static Shape ShapeOf(const Values& labels, const Shape& scores) {
    if (std::ssize(labels) == scores.count()) return scores;
    return {scores[0], std::ssize(labels) / scores[0]};
  }
  LayerUnderTest layer;
  const Values labels, of_batch, scores;
  OpRunner runner;
};

inline std::string Describe(const TensorDesc& desc) {
  return "[" + desc.shape.ToString() + "] in blocks of " + std::to_string(desc.channel_block);
}

}  // namespace hp::test
