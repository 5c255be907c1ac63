#pragma once

#include "layers/traits/layer_types.h"

namespace hp {

// The rows of LayerTypes::BuiltIn(), each with its functions in a file of its own; sisters share one.

LayerType AccuracyType();
LayerType ConcatType();
LayerType ConvolutionType();
LayerType DataType();
LayerType DropoutType();
LayerType EltwiseType();
LayerType FlattenType();
LayerType InnerProductType();
LayerType InputType();
LayerType LrnType();
LayerType PoolingType();
LayerType ReluType();
LayerType SigmoidType();
LayerType SoftmaxType();
LayerType SoftmaxLossType();
LayerType SplitType();
LayerType TanhType();

}  // namespace hp
