#include "base/format.h"
#include "base/pending_file.h"
#include "data/index.h"

#include <glog/logging.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace hp {

// The file, little-endian as the host: magic, length and bytes of the identity, numbers of records and of places,
// length and bytes of the keys, the end of each key, the place of each value, and XXH3 over all of that.
class IndexFile {
 public:
  static std::string Encode(const std::string& identity, const RecordIndex& index) {
    std::string out = kMagic;
    AppendNumber(identity.size(), &out);
    out += identity;
    AppendNumber(index.ends_.size(), &out);
    AppendNumber(index.values_.size(), &out);
    AppendNumber(index.keys_.size(), &out);
    out += index.keys_;
    AppendArray(index.ends_, &out);
    AppendArray(index.values_, &out);
    AppendNumber(XXH3_64bits(out.data(), out.size()), &out);
    return out;
  }

  static bool Decode(std::string_view in, const std::string& identity, RecordIndex* index) {
    if (in.size() < sizeof(uint64_t)) return false;
    const std::string_view body = in.substr(0, in.size() - sizeof(uint64_t));
    std::string_view tail = in.substr(body.size());
    uint64_t hash = 0, identity_size = 0, records = 0, values = 0, keys_size = 0;
    if (!TakeNumber(&tail, &hash) || hash != XXH3_64bits(body.data(), body.size())) return false;
    std::string_view rest = body, magic, found, keys;
    if (!Take(&rest, kMagic.size(), &magic) || magic != kMagic) return false;
    if (!TakeNumber(&rest, &identity_size) || !Take(&rest, identity_size, &found) || found != identity) return false;
    if (!TakeNumber(&rest, &records) || !TakeNumber(&rest, &values) || !TakeNumber(&rest, &keys_size)) return false;
    RecordIndex decoded;
    if (!Take(&rest, keys_size, &keys) || !TakeArray(&rest, records, &decoded.ends_)) return false;
    if ((values != 0 && values != records) || !TakeArray(&rest, values, &decoded.values_) || !rest.empty())
      return false;
    const auto& ends = decoded.ends_;
    if (!std::is_sorted(ends.begin(), ends.end()) || (ends.empty() ? 0 : ends.back()) != keys.size()) return false;
    decoded.keys_.assign(keys);
    *index = std::move(decoded);
    return true;
  }

 private:
  inline static const std::string kMagic = "hpnode index 2\n";

  static void AppendNumber(uint64_t value, std::string* out) {
    out->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <typename T>
  static void AppendArray(const std::vector<T>& values, std::string* out) {
    out->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  static bool Take(std::string_view* in, uint64_t size, std::string_view* out) {
    if (in->size() < size) return false;
    *out = in->substr(0, size);
    in->remove_prefix(size);
    return true;
  }
  static bool TakeNumber(std::string_view* in, uint64_t* value) {
    std::string_view bytes;
    if (!Take(in, sizeof(*value), &bytes)) return false;
    std::memcpy(value, bytes.data(), sizeof(*value));
    return true;
  }
  template <typename T>
  static bool TakeArray(std::string_view* in, uint64_t count, std::vector<T>* values) {
    std::string_view bytes;
    if (count > in->size() / sizeof(T) || !Take(in, count * sizeof(T), &bytes)) return false;
    values->resize(count);
    if (count > 0) std::memcpy(static_cast<void*>(values->data()), bytes.data(), bytes.size());
    return true;
  }
};

std::string EncodeIndex(const std::string& identity, const RecordIndex& index) {
  return IndexFile::Encode(identity, index);
}

bool DecodeIndex(std::string_view bytes, const std::string& identity, RecordIndex* index) {
  return IndexFile::Decode(bytes, identity, index);
}

namespace {

// Several processes of one host may scan the same database at once.
Status WriteIndexFile(const std::string& path, std::string_view bytes) {
  HP_ASSIGN_OR_RETURN(const auto file, PendingFile::CreatePrivate(path));
  HP_RETURN_IF_ERROR(file->Write(bytes));
  HP_RETURN_IF_ERROR(file->Sync());
  return file->Commit();
}

}  // namespace

IndexCache::IndexCache(const std::string& directory, const std::string& real_path) : directory_(directory) {
  if (directory_.empty()) return;
  path_ = Format("%s/%016llx.index", directory_.c_str(),
                 static_cast<unsigned long long>(XXH3_64bits(real_path.data(), real_path.size())));
}

bool IndexCache::Load(const std::string& identity, RecordIndex* index) const {
  if (directory_.empty()) return false;
  std::ifstream file(path_, std::ios::binary);
  if (!file) return false;
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return DecodeIndex(bytes, identity, index);
}

void IndexCache::Save(const std::string& identity, const RecordIndex& index) const {
  if (directory_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const Status written = WriteIndexFile(path_, EncodeIndex(identity, index));
  if (!written.ok()) VLOG(1) << "cannot cache the index in " << directory_ << ": " << written;
}

}  // namespace hp
