#pragma once

#include "commands/forward_net.h"
#include "data/hdf5_rows_file.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/phase.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// The files of a phase's HDF5Output layers, which an evaluation writes: datasets "data" and "label" of four axes, as
/// Caffe's, with the rows of all batches (Caffe ends at the second one). A file is there when all of it is written.
class OutputFiles {
 public:
  /// @return kInvalidArgument, naming the layer: a bottom that a later layer overwrites in place, or a file of two
  /// layers.
  static StatusOr<OutputFiles> Of(const caffe::NetParameter& net, Phase phase);

  /// Two for each layer: what ForwardNetOptions::blobs is to end with.
  const std::vector<std::string>& blobs() const { return blobs_; }
  /// @param first index of the first of them in the net's blobs.
  /// @return kInvalidArgument, naming the layer: a blob without values for each sample, or of more than four axes;
  /// errors of Hdf5RowsFile::Create.
  Status Create(const ForwardNet& net, size_t first, int64_t batches);
  /// What the net's latest Run has computed. @return errors of ReadBlob and Hdf5RowsFile::Put.
  Status Put(const ForwardNet& net, int64_t batch);
  Status Finish();

 private:
  std::vector<std::string> layers_, paths_, blobs_;
  std::vector<std::unique_ptr<Hdf5RowsFile>> files_;
  size_t first_ = 0;
};

}  // namespace hp
