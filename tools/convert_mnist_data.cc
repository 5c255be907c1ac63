// Converts MNIST's IDX files to a database of Datum records.

#include "hp/convert.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>

DEFINE_string(backend, "lmdb", "The database to write, lmdb or leveldb.");

namespace {

constexpr char kUsage[] =
    R"(Converts MNIST's files, or others in their format, to a database. Unpack them with gunzip first.

  convert_mnist_data [FLAGS] IMAGE_FILE LABEL_FILE DB_NAME

Example:
  convert_mnist_data --backend=leveldb train-images-idx3-ubyte train-labels-idx1-ubyte mnist_train_leveldb
)";

}  // namespace

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"convert_mnist_data", kUsage, 3, 3};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>& arguments) {
    return hp::ConvertMnist(arguments[0], arguments[1], arguments[2], FLAGS_backend);
  });
}
