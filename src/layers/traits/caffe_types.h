#pragma once

#include <string>

namespace hp {

/// A layer type that BVLC Caffe 1.0 or its master registers, supported here or not.
struct CaffeType {
  const char* name;
  bool source = false;      ///< yields tensors from outside the net
  bool parameters = false;  ///< has parameters that are learned or kept
};

/// Caffe's type of that name, or null.
const CaffeType* FindCaffeType(const std::string& name);

}  // namespace hp
