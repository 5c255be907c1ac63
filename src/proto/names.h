#pragma once

#include <string>
#include <vector>

namespace hp {

/// Whether Caffe's schema has `field` in `message` ("LayerParameter") although ours has not.
bool IsCaffeField(const std::string& message, const std::string& field);

/// The candidate that `name` was probably meant to be, or nothing.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace hp
