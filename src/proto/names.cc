#include "proto/names.h"

#include "base/words.h"

namespace hp {

std::string NearestName(const std::string& name, const std::vector<std::string>& candidates) {
  std::string nearest;
  // With more letters wrong it is another word, not a misspelling: roi_pooling_param is not pooling_param.
  size_t least = (name.size() < 5 ? 1 : std::max<size_t>(2, name.size() / 5)) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace hp
