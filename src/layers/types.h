#pragma once

#include "layers/factories.h"

#include <string>
#include <vector>

namespace hp {

/// One supported layer type: what makes it, and what the prototxt may say of it beside its own parameters.
struct LayerType {
  const char* name;
  StatusOr<LayerPtr> (*make)(const caffe::LayerParameter& param);
  std::vector<const char*> fields;  ///< typed parameters that belong to it, e.g. "relu_param"
  int min_bottoms, max_bottoms;
  int min_tops, max_tops;
  int blobs = 0;  ///< most learnable blobs
};

constexpr int kAnyNumber = 1 << 20;

const std::vector<LayerType>& LayerTypes();
/// The supported type of that name, or null.
const LayerType* FindLayerType(const std::string& name);
/// Whether Caffe has a layer type of that name, supported here or not.
bool IsCaffeLayerType(const std::string& name);
/// What to say of a type that is not supported: a Caffe type by name, else near matches or the whole list.
std::string DescribeUnsupportedType(const std::string& name);

}  // namespace hp
