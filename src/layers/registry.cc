#include "layers/common_checks.h"
#include "layers/errors.h"
#include "proto/caffe.pb.h"

namespace hp {

StatusOr<std::unique_ptr<Layer>> Layer::Create(const caffe::LayerParameter& param) {
  if (param.name().empty()) {
    return InvalidArgument("a layer of type \"%s\" has no name", param.type().c_str());
  }
  const LayerType* type = FindLayerType(param.type());
  if (type == nullptr) return LayerError(param, "%s", DescribeUnsupportedType(param.type()).c_str());
  HP_RETURN_IF_ERROR(CheckCommonFields(*type, param));
  HP_ASSIGN_OR_RETURN(LayerPtr layer, type->make(param));
  HP_RETURN_IF_ERROR(CheckInPlace(*layer));
  return layer;
}

}  // namespace hp
