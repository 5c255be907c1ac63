#include "layers/traits/window_fields.h"

#include "layers/traits/errors.h"

#include <algorithm>

namespace hp {

StatusOr<HeightWidth> ReadWindowField(const caffe::LayerParameter& param, const WindowField& field, int64_t fallback,
                                      int64_t least) {
  HeightWidth result = {fallback, fallback};
  if (field.has_height || field.has_width) {
    if (!field.values.empty()) {
      return LayerError(param, "%s has both %s and %s_h or %s_w; give one or the other", field.message, field.both,
                        field.each, field.each);
    }
    if (fallback != 0 && field.has_height != field.has_width) {
      return LayerError(param, "%s has %s_%c without %s_%c; give both, or %s", field.message, field.each,
                        field.has_height ? 'h' : 'w', field.each, field.has_height ? 'w' : 'h', field.both);
    }
    result = {field.height, field.width};
  } else if (field.values.size() > 2) {
    return LayerError(param, "%s has %zu values of %s; expected one, or one each for height and width", field.message,
                      field.values.size(), field.both);
  } else if (!field.values.empty()) {
    result = {field.values.front(), field.values.back()};
  } else if (fallback < 0) {
    return LayerError(param, "%s has no %s", field.message, field.both);
  }
  constexpr int64_t kMost = 1 << 20;  // beyond any image, and products of two stay far from overflow
  if (std::min(result.height, result.width) < least || std::max(result.height, result.width) > kMost) {
    return LayerError(param, "%s { %s: %lld x %lld }: expected %lld to %lld", field.message, field.both,
                      static_cast<long long>(result.height), static_cast<long long>(result.width),
                      static_cast<long long>(least), static_cast<long long>(kMost));
  }
  return result;
}

}  // namespace hp
