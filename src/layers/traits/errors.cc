#include "layers/traits/errors.h"

#include "base/format.h"
#include "proto/caffe.pb.h"

namespace hp {

Status LayerError(const caffe::LayerParameter& param, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const std::string message = FormatV(format, args);
  va_end(args);
  return InvalidArgument("layer \"%s\": %s", param.name().c_str(), message.c_str());
}

}  // namespace hp
