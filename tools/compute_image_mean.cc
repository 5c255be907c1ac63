// Computes the mean image of a database.

#include "hp/convert.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>

DEFINE_string(backend, "lmdb", "The database to read, lmdb or leveldb.");

namespace {

constexpr char kUsage[] =
    R"(Computes the mean image of a database of images of equal size, for mean_file, and logs the mean of each channel,
for mean_value.

  compute_image_mean [FLAGS] DB_NAME [OUTPUT_FILE]

Example:
  compute_image_mean --backend=leveldb cifar10_train_leveldb mean.binaryproto
)";

}  // namespace

int main(int argc, char** argv) {
  const hp::ToolUsage usage{"compute_image_mean", kUsage, 1, 2};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>& arguments) {
    return hp::ComputeImageMean(arguments[0], FLAGS_backend, arguments.size() > 1 ? arguments[1] : "");
  });
}
