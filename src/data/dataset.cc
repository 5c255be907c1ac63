#include "data/dataset.h"

#include "base/format.h"
#include "data/bad_records.h"
#include "data/leveldb_dataset.h"
#include "data/lmdb_dataset.h"
#include "proto/caffe.pb.h"

#include <strings.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

namespace hp {
namespace {

// Enough to tell data sets apart, and few enough for a cold disk.
constexpr int64_t kSampledRecords = 32;

StatusOr<std::string> RealPath(const std::string& source) {
  char* resolved = realpath(source.c_str(), nullptr);
  if (resolved == nullptr) {
    if (errno != ENOENT && errno != ENOTDIR) {
      return InvalidArgument("database \"%s\" can't be read: %s", source.c_str(), std::strerror(errno));
    }
    std::error_code error;
    const std::string from =
        source.starts_with("/") ? "" : " (looked up from " + std::filesystem::current_path(error).string() + ")";
    return NotFound("database \"%s\" does not exist%s", source.c_str(), from.c_str());
  }
  std::string path(resolved);
  free(resolved);
  return path;
}

StatusOr<std::unique_ptr<Dataset>> OpenBackend(const std::string& source, DbBackend backend,
                                               const DatasetOptions& options) {
  if (source.empty()) return InvalidArgument("no database is given");
  HP_ASSIGN_OR_RETURN(const std::string path, RealPath(source));
  if (backend == DbBackend::kLmdb) return LmdbDataset::Open(source, path, options);
  if (!std::filesystem::is_directory(path)) {
    return InvalidArgument("%s is not a LevelDB database: it is not a folder", path.c_str());
  }
  return LevelDbDataset::Open(source, path, options);
}

}  // namespace

StatusOr<DbBackend> ParseDbBackend(std::string_view name) {
  const std::string text(name);
  if (strcasecmp(text.c_str(), "leveldb") == 0) return DbBackend::kLevelDb;
  if (strcasecmp(text.c_str(), "lmdb") == 0) return DbBackend::kLmdb;
  return InvalidArgument("database backend \"%s\": expected leveldb or lmdb", text.c_str());
}

const char* DbBackendName(DbBackend backend) { return backend == DbBackend::kLmdb ? "lmdb" : "leveldb"; }

StatusOr<std::unique_ptr<Dataset>> Dataset::Open(const std::string& source, DbBackend backend,
                                                 const DatasetOptions& options) {
  return Opened(OpenBackend(source, backend, options), options);
}

StatusOr<std::unique_ptr<Dataset>> Dataset::Opened(StatusOr<std::unique_ptr<Dataset>> opened,
                                                   const DatasetOptions& options) {
  Status status = opened.status();
  if (status.ok() && (*opened)->size() == 0)
    status = InvalidArgument("database %s has no records", (*opened)->source().c_str());
  if (status.ok()) status = (*opened)->ComputeFingerprint(options.max_bad_records > 0);
  if (status.ok()) return opened;
  return options.hint.empty() ? status : status.Prepend(options.hint);
}

Status Dataset::ReadDatum(int64_t record, caffe::Datum* datum) {
  std::string bytes;
  HP_RETURN_IF_ERROR(Read(record, &bytes));
  if (datum->ParseFromString(bytes)) return OkStatus();
  return DataLoss("%s is not a valid Datum (%zu bytes)", Describe(record).c_str(), bytes.size());
}

Status Dataset::ReadTop(int64_t, int top, const caffe::Datum& datum, float* values) {
  *values = top == 1 ? static_cast<float>(datum.label()) : 0;
  return OkStatus();
}

Status DatumDataset::Read(int64_t record, std::string* bytes) {
  caffe::Datum datum;
  HP_RETURN_IF_ERROR(ReadDatum(record, &datum));
  datum.SerializeToString(bytes);
  return OkStatus();
}

std::string Dataset::Describe(int64_t record) const {
  return Format("record %lld (key \"%s\") of %s", static_cast<long long>(record), Printable(key(record)).c_str(),
                source_.c_str());
}

Status Dataset::ComputeFingerprint(bool bad_records) {
  XXH3_state_t* state = XXH3_createState();
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> owner(state, XXH3_freeState);
  XXH3_64bits_reset(state);
  const auto add_number = [state](uint64_t number) { XXH3_64bits_update(state, &number, sizeof(number)); };
  add_number(static_cast<uint64_t>(size()));
  if (IndexHash() != 0) add_number(IndexHash());
  const int64_t samples = std::min(size(), kSampledRecords);
  std::string value;
  std::vector<std::vector<float>> beside(std::max(1, tops()));  // by top, of those with several numbers
  for (int top = 1; top < tops(); ++top) {
    const Shape shape = top_shape(top);
    beside[top].resize(shape.rank() > 0 ? shape.count() : 0);
    for (const int64_t dim : shape.dims()) add_number(dim);
  }
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t record = samples == 1 ? 0 : i * (size() - 1) / (samples - 1);
    Status read = Read(record, &value);
    for (int top = 1; top < tops() && read.ok(); ++top) {
      if (!beside[top].empty()) read = ReadTop(record, top, {}, beside[top].data());
    }
    if (!read.ok()) {
      if (!bad_records || !MayBeSkipped(read)) return read;
      value.clear();
    }
    const std::string_view sampled = key(record);
    add_number(sampled.size());
    XXH3_64bits_update(state, sampled.data(), sampled.size());
    add_number(value.size());
    XXH3_64bits_update(state, value.data(), value.size());
    for (const std::vector<float>& values : beside) {
      if (read.ok()) XXH3_64bits_update(state, values.data(), values.size() * sizeof(float));
    }
  }
  fingerprint_ = std::max<uint64_t>(XXH3_64bits_digest(state), 1);
  return OkStatus();
}

}  // namespace hp
