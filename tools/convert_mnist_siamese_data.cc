// Draws pairs of MNIST's images to a database of Datum records with two channels, for siamese nets.

#include "hp/convert.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>

DEFINE_string(backend, "leveldb", "The database to write, lmdb or leveldb.");
DEFINE_int64(pairs, 0, "Pairs to draw; 0: as many as there are images.");
DEFINE_uint64(seed, 1, "Equal seeds give equal pairs.");

namespace {

constexpr char kUsage[] =
    R"(Draws pairs of the images of MNIST's files, or others in their format, to a database of records with two channels.
A pair's label is 1 where both images have one label, else 0. Unpack the files with gunzip first.

  convert_mnist_siamese_data [FLAGS] IMAGE_FILE LABEL_FILE DB_NAME

Example:
  convert_mnist_siamese_data train-images-idx3-ubyte train-labels-idx1-ubyte mnist_siamese_train_leveldb
)";

}  // namespace

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"convert_mnist_siamese_data", kUsage, 3, 3};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>& arguments) {
    return hp::ConvertMnistPairs(arguments[0], arguments[1], arguments[2], FLAGS_backend, {FLAGS_pairs, FLAGS_seed});
  });
}
