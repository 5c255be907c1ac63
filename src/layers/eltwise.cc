#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Product, weighted sum or maximum of bottoms of one shape, element by element.
StatusOr<LayerOp> MakeEltwiseOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::EltwiseParameter& eltwise = layer.param().eltwise_param();
  EltwiseDesc desc;
  if (eltwise.operation() == caffe::EltwiseParameter::PROD) desc.operation = EltwiseDesc::kProd;
  if (eltwise.operation() == caffe::EltwiseParameter::MAX) desc.operation = EltwiseDesc::kMax;
  if (desc.operation == EltwiseDesc::kSum) desc.coeff.assign(eltwise.coeff().begin(), eltwise.coeff().end());
  return context.backend->Eltwise(desc, in);
}

}  // namespace hp
