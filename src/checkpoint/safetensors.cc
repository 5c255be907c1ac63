// The header is parsed by protobuf's JSON parser into a google.protobuf.Struct, which takes some ten times the memory
// of its text, and fifty times where the text is little but brackets: hence the limits. Numbers are doubles
// there, exact up to 2^53 and so for every offset that a disk has.
#include "checkpoint/safetensors.h"

#include "base/bfloat16.h"
#include "base/float16.h"
#include "base/format.h"
#include "base/input_file.h"
#include "base/pending_file.h"

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

static_assert(std::endian::native == std::endian::little, "values are read and written as they lie in memory");

namespace hp {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr int64_t kLengthBytes = 8, kMaxHeaderBytes16MiB = 16 << 20, kAlignment = 8;
constexpr int kMostDepth = 3;                       // the header, a tensor, its shape
constexpr int64_t kMostValues2Mi = 2 << 20;         // some 200,000 tensors
constexpr double kLargestExact = 9007199254740992;  // 2^53

/// Bytes of an element; 0: there is no such type.
int64_t ElementBytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int64_t> kTypes[] = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4},  {"I32", 4},     {"U32", 4},     {"F16", 2}, {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U8", 1}};
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [dtype](const auto& type) { return type.first == dtype; });
  return found == std::end(kTypes) ? 0 : found->second;
}

/// Widens 16-bit values that fill the second half of `values` bytewise, from the front: each is read before it is
/// overwritten.
void Widen(std::vector<float>* values, float (*widened)(uint16_t)) {
  const size_t count = values->size();
  const char* narrow = reinterpret_cast<const char*>(values->data()) + count * sizeof(uint16_t);
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, narrow + i * sizeof(bits), sizeof(bits));
    (*values)[i] = widened(bits);
  }
}

/// What of JSON is slow to parse, before it is parsed. Strings may stand in either kind of quotes, as for the parser.
Status CheckNesting(std::string_view text) {
  int depth = 0;
  int64_t values = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c; ++i) i += text[i] == '\\';
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == '[' || c == '{' || c == ',') {
      if (c != ',' && ++depth > kMostDepth) {
        return DataLoss("its header is nested more than %d deep at byte %zu", kMostDepth, i);
      }
      if (++values > kMostValues2Mi) {
        return DataLoss("its header has more than %lld values", static_cast<long long>(kMostValues2Mi));
      }
    }
  }
  return OkStatus();
}

/// A whole number, at least 0. @return false: it is something else.
bool TakeNumber(const Value& value, int64_t* number) {
  const double given = value.number_value();
  if (value.kind_case() != Value::kNumberValue || !(given >= 0 && given <= kLargestExact)) return false;
  *number = static_cast<int64_t>(given);
  return static_cast<double>(*number) == given;
}

/// A list of such.
bool TakeNumbers(const Struct& of, const char* field, std::vector<int64_t>* numbers) {
  const auto found = of.fields().find(field);
  if (found == of.fields().end() || found->second.kind_case() != Value::kListValue) return false;
  for (const Value& value : found->second.list_value().values()) {
    if (!TakeNumber(value, &numbers->emplace_back())) return false;
  }
  return true;
}

/// @param data where the values of all tensors lie in the file: [first, second).
StatusOr<SafetensorsFile::Entry> TakeEntry(const Value& value, std::pair<int64_t, int64_t> data) {
  const Struct& fields = value.struct_value();
  const auto dtype = fields.fields().find("dtype");
  std::vector<int64_t> dims, offsets;
  if (value.kind_case() != Value::kStructValue || dtype == fields.fields().end() ||
      dtype->second.kind_case() != Value::kStringValue || !TakeNumbers(fields, "shape", &dims) ||
      !TakeNumbers(fields, "data_offsets", &offsets) || offsets.size() != 2) {
    return DataLoss("expected {\"dtype\": \"F32\", \"shape\": [...], \"data_offsets\": [BEGIN, END]}");
  }
  SafetensorsFile::Entry entry{dtype->second.string_value(), Shape(dims), 0, 0};
  const int64_t element = ElementBytes(entry.dtype);
  if (element == 0) return DataLoss("dtype \"%s\" is unknown", Printable(entry.dtype, 64).c_str());
  if (!entry.shape.InBounds()) return DataLoss("its shape is too large");
  const auto begin = static_cast<long long>(offsets[0]), end = static_cast<long long>(offsets[1]);
  if (offsets[0] > offsets[1] || offsets[1] > data.second - data.first) {
    return DataLoss("its data_offsets are %lld and %lld, outside of the %lld bytes of values that the file has", begin,
                    end, static_cast<long long>(data.second - data.first));
  }
  entry.begin = data.first + offsets[0];
  entry.bytes = offsets[1] - offsets[0];
  if (entry.bytes == entry.shape.count() * element) return entry;
  return DataLoss("%lld bytes of values, but shape \"%s\" of %s has %lld", static_cast<long long>(entry.bytes),
                  entry.shape.ToString().c_str(), entry.dtype.c_str(),
                  static_cast<long long>(entry.shape.count() * element));
}

/// Each begins where the one before ends, and the last ends with the file.
Status CheckNoGaps(const std::map<std::string, SafetensorsFile::Entry>& entries, std::pair<int64_t, int64_t> data) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, const std::string*>> ordered;
  ordered.reserve(entries.size());
  for (const auto& [name, entry] : entries) ordered.push_back({{entry.begin, entry.begin + entry.bytes}, &name});
  std::sort(ordered.begin(), ordered.end());
  int64_t end = data.first;
  for (const auto& [range, name] : ordered) {
    if (range.first != end) {
      return DataLoss("tensor \"%s\" begins at byte %lld of the file, but the tensors before it end at %lld",
                      Printable(*name, 256).c_str(), static_cast<long long>(range.first), static_cast<long long>(end));
    }
    end = range.second;
  }
  if (end == data.second) return OkStatus();
  return DataLoss("its tensors end at byte %lld, the file at %lld", static_cast<long long>(end),
                  static_cast<long long>(data.second));
}

/// As JSON. @param name has no control characters.
std::string Quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

StatusOr<std::string> HeaderOf(const std::map<std::string, Blob>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  int64_t begin = 0;
  for (const auto& [name, blob] : tensors) {
    if (Printable(name, name.size()) != name || name == "__metadata__") {
      return InvalidArgument("\"%s\" cannot be a tensor's name", Printable(name, 256).c_str());
    }
    const int64_t end = begin + blob.shape.count() * static_cast<int64_t>(sizeof(float));
    std::string dims;
    for (const int64_t dim : blob.shape.dims()) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    header += "," + Quoted(name) + ":{\"dtype\":\"F32\",\"shape\":[" + dims + "],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  header += "}";
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return header;
}

}  // namespace

StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(path, fd));
  HP_RETURN_IF_ERROR(file->ReadHeader().Prepend(path));
  return file;
}

SafetensorsFile::~SafetensorsFile() { close(fd_); }

Status SafetensorsFile::ReadHeader() {
  struct stat info = {};
  if (fstat(fd_, &info) != 0) return InvalidArgument("cannot be read: %s", std::strerror(errno));
  if (info.st_size < kLengthBytes)
    return DataLoss("truncated, or not a safetensors file: it has %lld bytes", static_cast<long long>(info.st_size));
  uint64_t length = 0;
  HP_RETURN_IF_ERROR(ReadBytes(0, kLengthBytes, reinterpret_cast<char*>(&length)));
  if (length > static_cast<uint64_t>(std::min<int64_t>(info.st_size - kLengthBytes, kMaxHeaderBytes16MiB))) {
    return DataLoss(
        "truncated, or not a safetensors file: it says that its header has %llu bytes; expected at most %lld",
        static_cast<unsigned long long>(length),
        static_cast<long long>(std::min<int64_t>(info.st_size - kLengthBytes, kMaxHeaderBytes16MiB)));
  }
  std::string text(length, '\0');
  HP_RETURN_IF_ERROR(ReadBytes(kLengthBytes, static_cast<int64_t>(length), text.data()));
  HP_RETURN_IF_ERROR(CheckNesting(text));
  Struct header;
  if (const auto parsed = google::protobuf::util::JsonStringToMessage(text, &header); !parsed.ok()) {
    return DataLoss("its header is not a JSON object: %s", Printable(parsed.ToString(), 256).c_str());
  }
  const std::pair<int64_t, int64_t> data = {kLengthBytes + static_cast<int64_t>(length), info.st_size};
  for (const auto& [name, value] : header.fields()) {
    if (name == "__metadata__") continue;
    auto entry = TakeEntry(value, data);
    if (!entry.ok()) return entry.status().Prepend("tensor \"" + Printable(name, 256) + "\"");
    entries_.emplace(name, *std::move(entry));
  }
  return CheckNoGaps(entries_, data);
}

Status SafetensorsFile::ReadBytes(int64_t begin, int64_t bytes, char* out) const {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got = pread(fd_, out + done, static_cast<size_t>(bytes - done), begin + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return InvalidArgument("cannot be read: %s", std::strerror(errno));
    if (got == 0) return DataLoss("it has become shorter: there is no byte %lld", static_cast<long long>(begin + done));
    done += got;
  }
  return OkStatus();
}

StatusOr<Blob> SafetensorsFile::Read(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  const bool half = entry.dtype == "F16", bfloat = entry.dtype == "BF16";
  if (!half && !bfloat && entry.dtype != "F32") {
    return InvalidArgument("%s: tensor \"%s\" is of %s; expected F32, F16 or BF16", path_.c_str(), name.c_str(),
                           entry.dtype.c_str());
  }
  Blob blob;
  blob.shape = entry.shape;
  blob.data.resize(static_cast<size_t>(entry.shape.count()));
  const auto capacity = static_cast<int64_t>(blob.data.size() * sizeof(float));
  // 16-bit values into the second half, to be widened from there.
  char* const out = reinterpret_cast<char*>(blob.data.data()) + (capacity - entry.bytes);
  HP_RETURN_IF_ERROR(ReadBytes(entry.begin, entry.bytes, out).Prepend(path_));
  if (half) Widen(&blob.data, FromFloat16);
  if (bfloat) Widen(&blob.data, FromBFloat16);
  return blob;
}

bool IsSafetensorsPath(const std::string& path) { return path.ends_with(".safetensors"); }

Status WriteSafetensors(const std::string& path, const std::map<std::string, Blob>& tensors) {
  const std::string target = ThroughLinks(path);
  StatusOr<std::string> header = HeaderOf(tensors);
  if (!header.ok()) return header.status().Prepend(path);
  const uint64_t length = header->size();
  HP_ASSIGN_OR_RETURN(const auto file, PendingFile::Create(target));
  HP_RETURN_IF_ERROR(file->Write({reinterpret_cast<const char*>(&length), sizeof(length)}));
  HP_RETURN_IF_ERROR(file->Write(*header));
  for (const auto& [name, blob] : tensors) {
    HP_RETURN_IF_ERROR(
        file->Write({reinterpret_cast<const char*>(blob.data.data()), blob.data.size() * sizeof(float)}));
  }
  HP_RETURN_IF_ERROR(file->Sync());
  HP_RETURN_IF_ERROR(file->Commit());
  return SyncFolderOf(target);
}

}  // namespace hp
