#pragma once

#include "backend/backend.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "tensor/device.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

struct ExtractOptions {
  std::vector<std::string> blobs;      ///< by name, at least one
  std::vector<std::string> databases;  ///< one for each blob: the path of the database to write
  std::string backend = "lmdb";        ///< of the databases, or "leveldb"
  int64_t iterations = 50;             ///< batches of the TEST phase
  int threads = 0;                     ///< that compute; 0: DefaultThreads
  int reader_threads = 1;
  std::string cache_dir;        ///< DatasetOptions::cache_dir
  int64_t max_bad_records = 0;  ///< InputOptions
};

/// Runs the TEST phase of `net` over the database of its Data layer, as Evaluate does, and writes what some blobs hold
/// for each sample into databases, as Caffe's extract_features does: a Datum with float_data [C, H, W] (H and W are 1
/// where the blob has no such axes), its key the number of the sample in 10 digits. Blocks.
/// @return errors of Evaluate and DbWriter; kInvalidArgument: an unknown blob, or one without values for each sample.
/// A database is there when all of it is written, or not at all.
Status ExtractBlobs(const caffe::NetParameter& net, const CaffeModel& model, Device* device, Backend* backend,
                    const ExtractOptions& options);

}  // namespace hp
