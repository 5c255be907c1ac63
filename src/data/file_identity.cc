#include "data/file_identity.h"

#include "base/clock.h"

#include <sys/stat.h>

namespace hp {
namespace {

FileIdentity FromStat(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec};
}

}  // namespace

std::optional<FileIdentity> IdentityOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FromStat(info);
}

std::optional<FileIdentity> IdentityOf(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return std::nullopt;
  return FromStat(info);
}

}  // namespace hp
