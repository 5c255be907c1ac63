#include "checkpoint/matched_weights.h"

#include "base/format.h"
#include "base/words.h"

#include <algorithm>

namespace hp {
namespace {

void AddOnce(const std::string& name, std::vector<std::string>* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

}  // namespace

MatchedWeights MatchWeights(const std::vector<BlobKey>& net, const std::set<BlobKey>& file) {
  MatchedWeights matched;
  std::set<std::string> names;
  for (const auto& [layer, blob] : net) {
    names.insert(layer);
    if (!file.contains({layer, blob})) AddOnce(layer, &matched.missing);
  }
  for (const auto& [layer, blob] : net) {
    const auto& missing = matched.missing;
    if (std::find(missing.begin(), missing.end(), layer) == missing.end()) AddOnce(layer, &matched.loaded);
  }
  for (const auto& [layer, blob] : file) {
    if (!names.contains(layer)) AddOnce(layer, &matched.ignored);
  }
  return matched;
}

std::string MatchedWeights::Describe(const std::string& path) const {
  std::string text = Format("%s: weights of %zu layer(s) loaded", path.c_str(), loaded.size());
  if (!missing.empty()) text += "; not in the file, initialized by their fillers: " + Join(missing);
  if (!ignored.empty()) text += "; not in the net, ignored: " + Join(ignored);
  return text;
}

}  // namespace hp
