#pragma once

#include <string>
#include <vector>

namespace hp {

/// The candidate with the smallest edit distance to `name`, if at most a third of its letters (at least one) differ;
/// else empty.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace hp
