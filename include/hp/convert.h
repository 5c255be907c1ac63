#pragma once

#include "hp/status.h"

#include <cstdint>
#include <string>

namespace hp {

// What the programs convert_cifar_data, convert_mnist_data, convert_mnist_siamese_data, convert_imageset and
// compute_image_mean do, as functions. Records, keys and labels are those of Caffe's tools of the same names; values
// are Datum messages.
//
// Each call blocks until it is done, works on the calling thread, and logs its progress by glog. `backend` is "leveldb"
// or "lmdb". A database is written to "PATH.partial-XXXXXX" and renamed when it is complete: one that exists is never
// touched, and after an error nothing is left at PATH.
//
// Errors name the file: kInvalidArgument (an option, or input of another kind), kNotFound (input or folder is missing),
// kDataLoss (truncated or corrupt input), kFailedPrecondition (the database exists already), kResourceExhausted (no
// space left on the disk).

/// Converts CIFAR-10's binary files data_batch_1.bin to data_batch_5.bin and test_batch.bin in `input_folder` to the
/// databases cifar10_train_BACKEND and cifar10_test_BACKEND in `output_folder`, which is made if it is missing. Both
/// databases are moved into place at the end, after all files were read.
Status ConvertCifar(const std::string& input_folder, const std::string& output_folder, const std::string& backend);

/// Converts MNIST's image and label files (IDX format, not compressed, with as many labels as images) to one database
/// of records [1, H, W].
/// @param database its path.
Status ConvertMnist(const std::string& image_file, const std::string& label_file, const std::string& database,
                    const std::string& backend);

/// What ConvertMnistPairs makes of ConvertMnist's input.
struct MnistPairOptions {
  int64_t pairs = 0;  ///< 0: as many as there are images
  uint64_t seed = 1;  ///< of what is drawn: equal seeds give equal pairs
};
/// Draws pairs of images, any two of all, to one database of records [2, H, W], whose label is 1 where both images have
/// one label, else 0. Files as ConvertMnist's; what they hold must fit into memory.
Status ConvertMnistPairs(const std::string& image_file, const std::string& label_file, const std::string& database,
                         const std::string& backend, const MnistPairOptions& options);

/// What ConvertImageSet reads and how it stores it. `list` and `database` are required.
struct ImageSetOptions {
  std::string root;              ///< put in front of each name of the list as it is, so normally it ends with "/"
  std::string list;              ///< a text file with "name label" in each line; names may contain spaces
  std::string database;          ///< path of the database to write
  std::string backend = "lmdb";  ///< or "leveldb"
  bool gray = false;             ///< one channel; false: three, in the order B, G, R
  bool shuffle = false;          ///< write the lines of the list in a random order
  uint64_t seed = 1;             ///< of the shuffle: equal seeds give equal orders
  int resize_width = 0, resize_height = 0;  ///< pixels, both or neither; 0: images keep their sizes
  bool check_size = false;                  ///< all records must have as many bytes as the first; raw images only
  bool encoded = false;                     ///< store encoded images, where possible the file as it is
  std::string encode_type;                  ///< "png" or "jpg"; implies `encoded`; empty: as the file's name says
};
/// Converts JPEG and PNG files to one database. An image that cannot be read is left out with a warning, as in Caffe;
/// if none can be read, the error of the first one is returned. A record's key is its position in the order written, 8
/// digits, then "_" and the name in the list.
Status ConvertImageSet(const ImageSetOptions& options);

/// Computes the mean image of a database whose images all have the shape of the first one; sums are in double
/// precision. Logs the mean of each channel, for `mean_value` of a TransformationParameter.
/// @param mean_file a binary BlobProto [1, C, H, W] is written there and replaces an existing file; empty: only logs.
Status ComputeImageMean(const std::string& database, const std::string& backend, const std::string& mean_file);

}  // namespace hp
