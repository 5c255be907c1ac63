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
  Op* MakeOp(const std::vector<TensorDesc>& in) {
    std::vector<Shape> shapes;
    for (const TensorDesc& desc : in) shapes.push_back(desc.shape);
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

inline std::string Describe(const TensorDesc& desc) {
  return "[" + desc.shape.ToString() + "] in blocks of " + std::to_string(desc.channel_block);
}

}  // namespace hp::test
