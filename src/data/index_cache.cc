#include "base/format.h"
#include "base/pending_file.h"
#include "data/index.h"

#include <glog/logging.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace hp {

// The file, little-endian as the host: magic, length and bytes of the identity, number of records, length and bytes of
// the keys, the end of each key, and XXH3 over all of that.
class IndexFile {
 public:
  static std::string Encode(const std::string& identity, const RecordIndex& index) {
    std::string out = kMagic;
    AppendNumber(identity.size(), &out);
    out += identity;
    AppendNumber(index.ends_.size(), &out);
    AppendNumber(index.keys_.size(), &out);
    out += index.keys_;
    out.append(reinterpret_cast<const char*>(index.ends_.data()), index.ends_.size() * sizeof(uint64_t));
    AppendNumber(XXH3_64bits(out.data(), out.size()), &out);
    return out;
  }

  static bool Decode(std::string_view in, const std::string& identity, RecordIndex* index) {
    if (in.size() < sizeof(uint64_t)) return false;
    const std::string_view body = in.substr(0, in.size() - sizeof(uint64_t));
    std::string_view tail = in.substr(body.size());
    uint64_t hash = 0, identity_size = 0, records = 0, keys_size = 0;
    if (!TakeNumber(&tail, &hash) || hash != XXH3_64bits(body.data(), body.size())) return false;
    std::string_view rest = body, magic, found;
    if (!Take(&rest, kMagic.size(), &magic) || magic != kMagic) return false;
    if (!TakeNumber(&rest, &identity_size) || !Take(&rest, identity_size, &found) || found != identity) return false;
    std::string_view keys;
    if (!TakeNumber(&rest, &records) || !TakeNumber(&rest, &keys_size) || !Take(&rest, keys_size, &keys)) return false;
    if (rest.size() / sizeof(uint64_t) != records || rest.size() % sizeof(uint64_t) != 0) return false;
    index->keys_.assign(keys);
    index->ends_.resize(records);
    std::memcpy(index->ends_.data(), rest.data(), rest.size());
    return true;
  }

 private:
  inline static const std::string kMagic = "hpnode index 1\n";

  static void AppendNumber(uint64_t value, std::string* out) {
    out->append(reinterpret_cast<const char*>(&value), sizeof(value));
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
};

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
  return IndexFile::Decode(bytes, identity, index);
}

void IndexCache::Save(const std::string& identity, const RecordIndex& index) const {
  if (directory_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  const Status written = WriteIndexFile(path_, IndexFile::Encode(identity, index));
  if (!written.ok()) VLOG(1) << "cannot cache the index in " << directory_ << ": " << written;
}

}  // namespace hp
