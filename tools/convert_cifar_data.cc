// Converts CIFAR-10's binary files to databases of Datum records.

#include "hp/convert.h"
#include "tools/tool_main.h"

namespace {

constexpr char kUsage[] =
    R"(Converts the binary files of CIFAR-10 (data_batch_1.bin ... data_batch_5.bin, test_batch.bin) to two databases,
OUTPUT_DIR/cifar10_train_DB_TYPE and OUTPUT_DIR/cifar10_test_DB_TYPE.

  convert_cifar_data INPUT_DIR OUTPUT_DIR [DB_TYPE]      DB_TYPE: leveldb (default) or lmdb

Example:
  convert_cifar_data cifar-10-batches-bin . leveldb
)";

}  // namespace

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"convert_cifar_data", kUsage, 2, 3};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>& arguments) {
    return hp::ConvertCifar(arguments[0], arguments[1], arguments.size() > 2 ? arguments[2] : "leveldb");
  });
}
