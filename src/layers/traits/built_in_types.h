#pragma once

#include "layers/traits/layer_types.h"

namespace hp {

// The rows of LayerTypes::BuiltIn() (LayerType says what a row holds), each in a file with the functions that it points
// to; related types share a file.

LayerType AbsValType();
LayerType AccuracyType();
LayerType ArgMaxType();
LayerType BatchNormType();
LayerType BiasType();
LayerType BnllType();
LayerType ClipType();
LayerType ConcatType();
LayerType ContrastiveType();
LayerType ConvolutionType();
LayerType CropType();
LayerType DataType();
LayerType DeconvolutionType();
LayerType DropoutType();
LayerType DummyDataType();
LayerType EltwiseType();
LayerType EluType();
LayerType EmbedType();
LayerType EuclideanLossType();
LayerType ExpType();
LayerType FlattenType();
LayerType Hdf5DataType();
LayerType Hdf5OutputType();
LayerType HingeLossType();
LayerType Im2colType();
LayerType ImageDataType();
LayerType InfogainLossType();
LayerType InnerProductType();
LayerType InputType();
LayerType LogType();
LayerType LogisticLossType();
LayerType LrnType();
LayerType MvnType();
LayerType ParameterType();
LayerType PoolingType();
LayerType PowerType();
LayerType PreluType();
LayerType ReductionType();
LayerType ReluType();
LayerType ReshapeType();
LayerType ScaleType();
LayerType SigmoidLossType();
LayerType SigmoidType();
LayerType SilenceType();
LayerType SliceType();
LayerType SoftmaxLossType();
LayerType SoftmaxType();
LayerType SplitType();
LayerType SppType();
LayerType SwishType();
LayerType TanhType();
LayerType ThresholdType();
LayerType TileType();

}  // namespace hp
