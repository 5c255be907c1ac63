#pragma once

#include "layers/traits/layer_types.h"

namespace hp {

// The rows of LayerTypes::BuiltIn() (LayerType says what a row holds), each in a file with the functions that it points
// to; related types share a file.

LayerType AccuracyType();
LayerType BatchNormType();
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
LayerType ScaleType();
LayerType SigmoidType();
LayerType SoftmaxType();
LayerType SoftmaxLossType();
LayerType SplitType();
LayerType TanhType();

}  // namespace hp
