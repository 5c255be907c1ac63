#include "base/job_token.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

namespace hp {
namespace {

constexpr std::string_view kTokenPrefix = "hpnode token ";
constexpr std::string_view kReadKeyPrefix = "hpnode read key ";
constexpr size_t kMaxFileBytes = 256;

struct CloseFile {
  int fd;
  ~CloseFile() { close(fd); }
};

SecretKey Derive(const SecretKey& token, const char* purpose) {
  SecretKey key;
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), &EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()),
                                                                          &EVP_KDF_CTX_free);
  std::string digest = "SHA256", salt = "hpnode job token 1", info = purpose;
  SecretKey secret = token;
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
                                   OSSL_PARAM_construct_end()};
  CHECK(context &&
        EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(key.data()), key.size(), parameters) == 1)
      << "OpenSSL has no HKDF";
  return key;
}

JobKeys KeysOf(const SecretKey& token) {
  return {.node = true,
          .nodes = Derive(token, "node"),
          .readers = Derive(token, "read"),
          .controllers = Derive(token, "control"),
          .rendezvous = Derive(token, "rendezvous")};
}

std::string Hex(const SecretKey& key) {
  std::string text;
  for (std::byte byte : key) {
    text += "0123456789abcdef"[std::to_integer<int>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
  }
  return text;
}

std::optional<SecretKey> FromHex(std::string_view text) {
  SecretKey key;
  size_t bytes = 0;
  const std::string copy(text);
  if (OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(key.data()), key.size(), &bytes, copy.c_str(), '\0') !=
          1 ||
      bytes != key.size()) {
    return std::nullopt;
  }
  return key;
}

Status CheckAccess(int fd, const std::string& path) {
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return InvalidArgument("%s: not a regular file", path.c_str());
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return InvalidArgument("%s: others can read or write it (mode %03o); expected chmod 600, or 640 for a group",
                           path.c_str(), static_cast<unsigned>(info.st_mode & 0777));
  }
  return OkStatus();
}

Status WriteSecret(const std::string& path, const std::string& line) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) return FailedPrecondition("%s exists already", path.c_str());
  if (fd < 0) return InvalidArgument("%s: %s", path.c_str(), std::strerror(errno));
  const CloseFile closer{fd};
  if (write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && fsync(fd) == 0) return OkStatus();
  const int error = errno;
  unlink(path.c_str());
  return InvalidArgument("%s: %s", path.c_str(), std::strerror(error));
}

}  // namespace

StatusOr<JobKeys> ReadJobKeys(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return NotFound("%s: %s", path.c_str(), std::strerror(errno));
  const CloseFile closer{fd};
  HP_RETURN_IF_ERROR(CheckAccess(fd, path));
  char buffer[kMaxFileBytes];
  const ssize_t size = read(fd, buffer, sizeof(buffer));
  std::string_view text(buffer, size < 0 ? 0 : static_cast<size_t>(size));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.starts_with(kTokenPrefix)) {
    if (const auto token = FromHex(text.substr(kTokenPrefix.size()))) return KeysOf(*token);
  } else if (text.starts_with(kReadKeyPrefix)) {
    if (const auto key = FromHex(text.substr(kReadKeyPrefix.size()))) return JobKeys{.readers = *key};
  }
  return InvalidArgument("%s: neither a token nor a read key; hproute --new_token=FILE writes a token", path.c_str());
}

Status WriteNewToken(const std::string& path) {
  return WriteSecret(path, std::string(kTokenPrefix) + Hex(RandomBytes()) + "\n");
}

Status WriteReadKey(const JobKeys& keys, const std::string& path) {
  return WriteSecret(path, std::string(kReadKeyPrefix) + Hex(keys.readers) + "\n");
}

SecretKey RandomBytes() {
  SecretKey bytes;
  CHECK_EQ(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())), 1)
      << "no random numbers";
  return bytes;
}

SecretKey Authenticate(const SecretKey& key, std::string_view message) {
  SecretKey code;
  size_t bytes = 0;
  CHECK(EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(),
                  reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                  reinterpret_cast<unsigned char*>(code.data()), code.size(), &bytes) != nullptr &&
        bytes == code.size())
      << "OpenSSL has no HMAC";
  return code;
}

bool SameBytes(const SecretKey& a, const SecretKey& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace hp
