#include "checkpoint/folder_nonce.h"

#include "base/format.h"
#include "base/input_file.h"
#include "base/pending_file.h"

#include <unistd.h>

#include <cinttypes>
#include <filesystem>
#include <random>

namespace hp {
namespace {

std::string PathOfNonce(const std::string& prefix, uint64_t number) {
  const std::filesystem::path folder = std::filesystem::path(prefix).parent_path();
  return (folder / Format(".hpnode_nonce_%016" PRIx64, number)).string();
}

std::string TextOf(uint64_t number) { return Format("%016" PRIx64 "\n", number); }

}  // namespace

StatusOr<std::unique_ptr<FolderNonce>> FolderNonce::Create(const std::string& prefix) {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32 | random()) | 1;
  const std::string path = PathOfNonce(prefix, number);
  HP_RETURN_IF_ERROR(WriteWholeFile(path, TextOf(number)));
  return std::unique_ptr<FolderNonce>(new FolderNonce(path, number));
}

FolderNonce::~FolderNonce() { unlink(path_.c_str()); }

bool FolderNonce::IsIn(const std::string& prefix, uint64_t number) {
  const StatusOr<std::string> text = ReadInputFile(PathOfNonce(prefix, number));
  return text.ok() && *text == TextOf(number);
}

}  // namespace hp
