#pragma once

#include <string>
#include <vector>

namespace hp {

/// Whether `field` is a field of message `message` ("LayerParameter") in Caffe's schema that caffe.proto lacks. Knows
/// the typed parameters of unsupported layers only.
bool IsCaffeField(const std::string& message, const std::string& field);

/// The candidate with the smallest edit distance to `name`, if at most a third of its letters (at least one) differ;
/// else empty.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace hp
