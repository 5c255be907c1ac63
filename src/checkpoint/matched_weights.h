#pragma once

#include "checkpoint/weights.h"

#include <set>
#include <string>
#include <vector>

namespace hp {

/// What a net takes from a .caffemodel, by name, as Caffe's --weights does.
struct MatchedWeights {
  std::vector<std::string> loaded;   ///< layers of the net that have all their blobs from the file
  std::vector<std::string> missing;  ///< those with blobs that the file lacks, which keep their fillers' values
  std::vector<std::string> ignored;  ///< layers of the file that the net has not, or not with blobs

  /// One line: how many are loaded, and the names of the others. @param path of the file.
  std::string Describe(const std::string& path) const;
};

/// @param net the blobs of the whole net, in the order of its layers. @param file those of the file, and those of the
/// net that get its values because they are the same parameter.
MatchedWeights MatchWeights(const std::vector<BlobKey>& net, const std::set<BlobKey>& file);

}  // namespace hp
