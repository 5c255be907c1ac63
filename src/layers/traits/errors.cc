#include "layers/traits/errors.h"

#include "base/format.h"
#include "proto/caffe.pb.h"

#include <string>

namespace hp {

Status LayerError(const caffe::LayerParameter& param, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const std::string message = FormatV(format, args);
  va_end(args);
  return InvalidArgument("layer \"%s\": %s", param.name().c_str(), message.c_str());
}

Status AxisError(const caffe::LayerParameter& param, const char* field, int axis, const Shape& in) {
  const std::string expected = in.rank() < 2 ? "one with axes behind axis 0" : "1 to " + std::to_string(in.rank() - 1);
  return LayerError(param, "%s: %d } does not fit bottom shape [%s]; expected %s (axis 0 is the batch)", field, axis,
                    in.ToString().c_str(), expected.c_str());
}

}  // namespace hp
