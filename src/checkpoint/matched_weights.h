#pragma once

#include "base/shared_blob.h"
#include "checkpoint/weights.h"
#include "hp/status.h"

#include <set>
#include <string>
#include <vector>

namespace hp {

/// What a net takes from a .caffemodel, by name, as Caffe's --weights does.
struct MatchedWeights {
  std::vector<std::string> loaded;   ///< layers of the net that have all their blobs from the file
  std::vector<std::string> missing;  ///< those with blobs that neither it nor an earlier file has
  std::vector<std::string> kept;     ///< those with blobs that only an earlier file, or the net's own, has
  std::vector<std::string> ignored;  ///< layers of the file that the net has not

  /// One line: how many are loaded, and the names of the others. @param path of the file. @param last no other file
  /// comes behind it, so that what is missing keeps its fillers' values.
  std::string Describe(const std::string& path, bool last) const;
};

/// @param net the blobs of the whole net, in the order of its layers. @param file those of the file, and those of the
/// net that get its values because they are the same parameter. @param earlier likewise of the files before it.
MatchedWeights MatchWeights(const std::vector<BlobKey>& net, const std::set<BlobKey>& file,
                            const std::set<BlobKey>& earlier);

/// Says what a net takes of a file, as Caffe does (Ignoring source layer) and in a line of Describe's.
/// @param params of the net, each under all its names. @param last no other file comes behind it.
/// @param earlier the blobs that files before it gave; then its own, too.
MatchedWeights LogMatches(const CaffeModel& model, const std::vector<std::vector<SharedBlob>>& params, bool last,
                          std::set<BlobKey>* earlier);

/// Whether each layer that is in both has as many blobs in the file as in the net. Of parameters that layers share a
/// file may have the blobs with one of the layers alone, as HDF5 files do.
/// @param layers all of the net, by name. @param params of the net, each under all its names.
/// @return kFailedPrecondition, naming file, layer and both counts.
/// Source: Caffe, src/caffe/net.cpp, Net::CopyTrainedLayersFrom.
Status CheckBlobCounts(const CaffeModel& model, const std::set<std::string>& layers,
                       const std::vector<std::vector<SharedBlob>>& params);

}  // namespace hp
