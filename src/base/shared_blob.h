#pragma once

#include "base/shape.h"

#include <string>

namespace hp {

/// A blob of a layer that is another layer's parameter under a name of its own: param { name } in the prototxt.
struct SharedBlob {
  std::string layer;  ///< name in the prototxt
  int blob = 0;       ///< among the layer's blobs, in Caffe's order
  Shape shape;        ///< of the whole blob; with share_mode: PERMISSIVE perhaps another one than the owner's
};

}  // namespace hp
