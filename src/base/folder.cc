#include "base/folder.h"

#include <filesystem>

namespace hp {

Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return OkStatus();
  const bool full = error == std::errc::no_space_on_device;
  return Status(full ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument,
                path + ": the folder cannot be made: " + error.message());
}

}  // namespace hp
