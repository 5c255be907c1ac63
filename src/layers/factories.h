#pragma once

#include "hp/status.h"
#include "layers/layer.h"

#include <memory>

namespace hp {

// What registry.cc maps type names to: one factory for each layer, or for each family of layers that share a class.
// A factory validates the parameters of its type; what all layers have in common is checked before it is called.

using LayerPtr = std::unique_ptr<Layer>;

StatusOr<LayerPtr> MakeAccuracyLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeActivationLayer(const caffe::LayerParameter& param);  ///< ReLU, Sigmoid, TanH
StatusOr<LayerPtr> MakeConcatLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeConvolutionLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeDataLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeDropoutLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeEltwiseLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeFlattenLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeInnerProductLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeInputLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeLrnLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakePoolingLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeSoftmaxLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeSoftmaxLossLayer(const caffe::LayerParameter& param);
StatusOr<LayerPtr> MakeSplitLayer(const caffe::LayerParameter& param);

}  // namespace hp
