#include "checkpoint/matched_weights.h"

#include "base/format.h"
#include "base/words.h"

#include "glog/logging.h"

#include <algorithm>
#include <map>

namespace hp {
namespace {

void AddOnce(const std::string& name, std::vector<std::string>* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

}  // namespace

MatchedWeights MatchWeights(const std::vector<BlobKey>& net, const std::set<BlobKey>& file,
                            const std::set<BlobKey>& earlier) {
  MatchedWeights matched;
  std::set<std::string> names, not_here, nowhere;
  for (const BlobKey& key : net) {
    names.insert(key.first);
    if (file.contains(key)) continue;
    not_here.insert(key.first);
    if (!earlier.contains(key)) nowhere.insert(key.first);
  }
  for (const auto& [layer, blob] : net) {
    AddOnce(layer, nowhere.contains(layer)    ? &matched.missing
                   : not_here.contains(layer) ? &matched.kept
                                              : &matched.loaded);
  }
  for (const auto& [layer, blob] : file) {
    if (!names.contains(layer)) AddOnce(layer, &matched.ignored);
  }
  return matched;
}

MatchedWeights LogMatches(const CaffeModel& model, const std::vector<std::vector<SharedBlob>>& params, bool last,
                          std::set<BlobKey>* earlier) {
  std::vector<BlobKey> net;
  std::set<BlobKey> file;
  for (const auto& [key, blob] : model.blobs) file.insert(key);
  for (const std::vector<SharedBlob>& names : params) {
    for (const SharedBlob& name : names) {
      net.emplace_back(name.layer, name.blob);
      if (model.LastOf(names) != nullptr) file.insert(net.back());
    }
  }
  const MatchedWeights matched = MatchWeights(net, file, *earlier);
  earlier->insert(file.begin(), file.end());
  for (const std::string& layer : matched.ignored) LOG(INFO) << "Ignoring source layer " << layer;  // as Caffe
  LOG(INFO) << matched.Describe(model.path, last);
  return matched;
}

Status CheckBlobCounts(const CaffeModel& model, const std::set<std::string>& layers,
                       const std::vector<std::vector<SharedBlob>>& params) {
  std::map<std::string, int> in_file, in_net;
  std::map<std::string, bool> wrong;
  for (const auto& [key, blob] : model.blobs) ++in_file[key.first];
  for (const std::string& layer : model.bare) in_file.emplace(layer, 0);
  for (const std::vector<SharedBlob>& names : params) {
    const bool has_value = model.LastOf(names) != nullptr;
    for (const SharedBlob& name : names) {
      ++in_net[name.layer];
      if (!has_value) wrong[name.layer] = true;
    }
  }
  for (const auto& [layer, count] : in_file) {
    if (!layers.contains(layer) || (count <= in_net[layer] && !wrong[layer])) continue;
    return FailedPrecondition(
        "%s: incompatible number of blobs for layer \"%s\": %d in the file, %d in the net; to begin with its fillers' "
        "values a layer needs another name",
        model.path.c_str(), layer.c_str(), count, in_net[layer]);
  }
  return OkStatus();
}

std::string MatchedWeights::Describe(const std::string& path, bool last) const {
  std::string text = Format("%s: weights of %zu layer(s) loaded", path.c_str(), loaded.size());
  if (!kept.empty()) text += "; not in the file, with the values that were there before it: " + Join(kept);
  if (!missing.empty())
    text += std::string("; not in the file") + (last ? ", initialized by their fillers: " : ": ") + Join(missing);
  if (!ignored.empty()) text += "; not in the net, ignored: " + Join(ignored);
  return text;
}

}  // namespace hp
