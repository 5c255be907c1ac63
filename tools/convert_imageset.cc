// Converts JPEG and PNG files to a database of Datum records.

#include "hp/convert.h"
#include "tools/tool_main.h"

#include <gflags/gflags.h>
#include <glog/logging.h>

DEFINE_bool(gray, false, "Read images as grayscale.");
DEFINE_bool(shuffle, false, "Shuffle the order of the images and their labels.");
DEFINE_uint64(seed, 1, "Seed of --shuffle: the same seed gives the same order.");
DEFINE_string(backend, "lmdb", "The database to write, lmdb or leveldb.");
DEFINE_int32(resize_width, 0, "Width that images are resized to; 0: not resized.");
DEFINE_int32(resize_height, 0, "Height that images are resized to; 0: not resized.");
DEFINE_bool(check_size, false, "Check that all records have the same size.");
DEFINE_bool(encoded, false, "Store the images encoded: a much smaller database, decoded when read.");
DEFINE_string(encode_type, "", "Encoding, png or jpg; implies --encoded. Empty: by the file's extension.");

namespace {

constexpr char kUsage[] =
    R"(Converts image files, JPEG or PNG, to a database.

  convert_imageset [FLAGS] ROOTFOLDER/ LISTFILE DB_NAME

Each line of LISTFILE names an image below ROOTFOLDER/ and its label, a number:
  cat/1.jpg 3

Example:
  convert_imageset --resize_width=256 --resize_height=256 --shuffle --backend=leveldb images/ train.txt train_leveldb
)";

}  // namespace

int main(int argc, char** argv) {
  constexpr size_t kArguments = 3, kOfOldProgram = 7;  // which said by them what flags say today
  const hp::ToolUsage usage{"convert_imageset", kUsage, kArguments, kOfOldProgram};
  return hp::ToolMain(argc, argv, usage, [](const std::vector<std::string>& arguments) {
    for (size_t i = kArguments; i < arguments.size(); ++i) {
      LOG(WARNING) << "\"" << arguments[i]
                   << "\" behind DB_NAME has no effect, as in today's Caffe; use --shuffle, --backend, --resize_height "
                      "and --resize_width";
    }
    hp::ImageSetOptions options;
    options.root = arguments[0];
    options.list = arguments[1];
    options.database = arguments[2];
    options.backend = FLAGS_backend;
    options.gray = FLAGS_gray;
    options.shuffle = FLAGS_shuffle;
    options.seed = FLAGS_seed;
    options.resize_width = FLAGS_resize_width;
    options.resize_height = FLAGS_resize_height;
    options.check_size = FLAGS_check_size;
    options.encoded = FLAGS_encoded;
    options.encode_type = FLAGS_encode_type;
    return hp::ConvertImageSet(options);
  });
}
