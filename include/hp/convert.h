#pragma once

#include "hp/status.h"

#include <cstdint>
#include <string>

namespace hp {

// What the converters in tools/ do. `backend` is "leveldb" or "lmdb". A database that exists is never touched, and one
// that is not complete never stands in its place. Records, keys and labels are those of Caffe's tools of the same
// names. Progress is logged. Errors are kInvalidArgument, kNotFound, kDataLoss (input), kFailedPrecondition (exists
// already) or kResourceExhausted (no space left), and name the file.

/// CIFAR-10's binary files data_batch_1.bin to data_batch_5.bin and test_batch.bin in `input_folder` to the databases
/// cifar10_train_BACKEND and cifar10_test_BACKEND in `output_folder`, which is made if it is missing.
Status ConvertCifar(const std::string& input_folder, const std::string& output_folder, const std::string& backend);

/// MNIST's image and label files (IDX format, uncompressed) to one database.
Status ConvertMnist(const std::string& image_file, const std::string& label_file, const std::string& database,
                    const std::string& backend);

struct ImageSetOptions {
  std::string root;  ///< put in front of each name of the list as it is, so normally it ends with "/"
  std::string list;  ///< a text file with "name label" in each line; names may contain spaces
  std::string database;
  std::string backend = "lmdb";
  bool gray = false;
  bool shuffle = false;
  uint64_t seed = 1;                        ///< of the shuffle
  int resize_width = 0, resize_height = 0;  ///< both 0: as they are
  bool check_size = false;                  ///< all records must have as many bytes as the first
  bool encoded = false;                     ///< store encoded images, where possible the file as it is
  std::string encode_type;                  ///< "png", "jpg", ...; implies `encoded`; empty: as the file's name says
};
/// Image files to one database. Images that can't be read are left out with a warning, as Caffe does; it is an error if
/// none can.
Status ConvertImageSet(const ImageSetOptions& options);

/// The mean image of a database of equally large images, summed in double precision. Logs the mean of each channel.
/// @param mean_file written as a binary BlobProto, replacing what is there; empty: only logged.
Status ComputeImageMean(const std::string& database, const std::string& backend, const std::string& mean_file);

}  // namespace hp
