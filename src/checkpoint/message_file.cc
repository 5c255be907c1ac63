// The outermost message is walked field by field with protobuf's own coded streams; only one sub-message at a time is
// parsed into an object. Writing goes the other way round: the sizes of a blob's fields are computed first, since
// protobuf puts a length in front of each, and then its values are written straight from the caller's memory.
#include "checkpoint/message_file.h"

#include "base/float16.h"
#include "base/input_file.h"

#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/wire_format_lite.h"
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

namespace hp {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

static_assert(std::endian::native == std::endian::little, "floats are written as they lie in memory");

constexpr int kPieceBytes = 1 << 20;

// One pass over the fields of the outermost message.
class FieldWalk {
 public:
  FieldWalk(const std::set<int>& parts, const PartReader& reader, CodedInputStream* in, int64_t file_bytes)
      : parts_(parts), reader_(reader), in_(in), file_bytes_(file_bytes) {}

  Status Run(CodedOutputStream* rest) {
    while (const uint32_t tag = in_->ReadTag()) {
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      if (parts_.count(field) > 0) {
        HP_RETURN_IF_ERROR(ReadPart(field, tag));
      } else if (!WireFormatLite::SkipField(in_, tag, rest)) {
        return Broken();
      }
    }
    return in_->ConsumedEntireMessage() && in_->CurrentPosition() == file_bytes_ ? OkStatus() : Broken();
  }

 private:
  Status ReadPart(int field, uint32_t tag) {
    uint32_t length = 0;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        !in_->ReadVarint32(&length)) {
      return Broken();
    }
    const int64_t begin = in_->CurrentPosition();
    if (begin + length > file_bytes_) {
      return DataLoss("truncated, or not a Caffe file: the entry at byte %lld needs %u bytes, but only %lld are left",
                      static_cast<long long>(begin), length, static_cast<long long>(file_bytes_ - begin));
    }
    const auto limit = in_->PushLimit(static_cast<int>(length));
    HP_RETURN_IF_ERROR(reader_(field, in_));
    in_->PopLimit(limit);
    return OkStatus();
  }
  Status Broken() const {
    return DataLoss("truncated, or not a Caffe file: no valid protobuf message at byte %d of %lld",
                    in_->CurrentPosition(), static_cast<long long>(file_bytes_));
  }

  const std::set<int>& parts_;
  const PartReader& reader_;
  CodedInputStream* const in_;
  const int64_t file_bytes_;
};

Status CheckSize(int fd, int64_t* bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return DataLoss("cannot be read: %s", strerror(errno));
  *bytes = info.st_size;
  if (*bytes == 0) return DataLoss("the file is empty");
  if (*bytes > kMaxMessageBytes2GiB) {
    return DataLoss("the file has %.2f GB; protobuf limits Caffe files to 2 GiB", static_cast<double>(*bytes) * 1e-9);
  }
  return OkStatus();
}

int64_t VarintBytes(uint64_t value) { return CodedOutputStream::VarintSize64(value); }

int64_t DimsBytes(const Shape& shape) {
  int64_t bytes = 0;
  for (int64_t dim : shape.dims()) bytes += VarintBytes(dim);
  return bytes;
}

// BlobShape: its dims, packed. An empty shape is an empty message.
int64_t ShapeBytes(const Shape& shape) {
  const int64_t dims = DimsBytes(shape);
  return dims == 0 ? 0 : 1 + VarintBytes(dims) + dims;
}

int64_t DataBytes(const BlobRef& blob) { return blob.shape.count() * static_cast<int64_t>(sizeof(float)); }

int64_t BlobBytes(const BlobRef& blob) {
  const int64_t data = DataBytes(blob), shape = ShapeBytes(blob.shape);
  return (data > 0 ? 1 + VarintBytes(data) + data : 0) + 1 + VarintBytes(shape) + shape;
}

void WriteLengthTag(int field, int64_t bytes, CodedOutputStream* out) {
  out->WriteTag(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  out->WriteVarint64(bytes);
}

void WriteZeros(int64_t bytes, CodedOutputStream* out) {
  const std::vector<char> zeros(std::min<int64_t>(bytes, kPieceBytes));
  for (; bytes > 0; bytes -= static_cast<int64_t>(zeros.size())) {
    out->WriteRaw(zeros.data(), static_cast<int>(std::min<int64_t>(bytes, zeros.size())));
  }
}

// Straight into the stream's buffers.
Status CopySource(const BlobSource& source, int64_t bytes, CodedOutputStream* out) {
  for (int64_t begin = 0; begin < bytes;) {
    void* room = nullptr;
    int size = 0;
    if (!out->GetDirectBufferPointer(&room, &size)) return OkStatus();  // the disk's error
    const auto piece = static_cast<int>(std::min<int64_t>(size, bytes - begin));
    HP_RETURN_IF_ERROR(source(begin, {static_cast<char*>(room), static_cast<size_t>(piece)}));
    if (!out->Skip(piece)) return OkStatus();
    begin += piece;
  }
  return OkStatus();
}

template <typename Raw>
StatusOr<std::vector<float>> Widened(const std::string& bytes, float (*widened)(Raw)) {
  if (bytes.size() % sizeof(Raw) != 0) {
    return DataLoss("raw_data has %zu bytes; expected a multiple of %zu", bytes.size(), sizeof(Raw));
  }
  std::vector<float> values(bytes.size() / sizeof(Raw));
  for (size_t i = 0; i < values.size(); ++i) {
    Raw raw;
    std::memcpy(&raw, bytes.data() + i * sizeof(Raw), sizeof(Raw));
    values[i] = widened(raw);
  }
  return values;
}

// NVIDIA's Caffe writes them so.
StatusOr<std::vector<float>> TakeRawValues(const caffe::BlobProto& proto) {
  if (!proto.has_raw_data_type()) return DataLoss("raw_data without a raw_data_type that is known");
  switch (proto.raw_data_type()) {
    case caffe::BlobProto::DOUBLE:
      return Widened<double>(proto.raw_data(), [](double value) { return static_cast<float>(value); });
    case caffe::BlobProto::FLOAT:
      return Widened<float>(proto.raw_data(), [](float value) { return value; });
    case caffe::BlobProto::FLOAT16:
      return Widened<uint16_t>(proto.raw_data(), FromFloat16);
    default:
      return DataLoss("raw_data of type %s; expected DOUBLE, FLOAT or FLOAT16",
                      caffe::BlobProto::RawType_Name(proto.raw_data_type()).c_str());
  }
}

StatusOr<std::vector<float>> TakeValues(const caffe::BlobProto& proto) {
  if (proto.data_size() > 0) return std::vector<float>(proto.data().begin(), proto.data().end());
  if (proto.has_raw_data()) return TakeRawValues(proto);
  return std::vector<float>(proto.double_data().begin(), proto.double_data().end());
}

}  // namespace

Status ReadMessageFile(const std::string& path, const std::set<int>& parts, const PartReader& reader,
                       std::string* rest) {
  HP_ASSIGN_OR_RETURN(const int fd, OpenInputFile(path));
  // Protobuf writes its own opinion of bad bytes to stderr; ours is in the Status.
  const google::protobuf::LogSilencer quiet;
  google::protobuf::io::FileInputStream file(fd, kPieceBytes);
  file.SetCloseOnDelete(true);
  int64_t bytes = 0;
  HP_RETURN_IF_ERROR(CheckSize(fd, &bytes).Prepend(path));
  CodedInputStream in(&file);
  std::string others;
  Status status;
  {
    google::protobuf::io::StringOutputStream sink(&others);
    CodedOutputStream out(&sink);
    status = FieldWalk(parts, reader, &in, bytes).Run(&out);
  }
  if (rest != nullptr) *rest = std::move(others);
  return status.Prepend(path);
}

Status ParsePart(CodedInputStream* part, google::protobuf::MessageLite* message) {
  message->Clear();
  if (message->MergeFromCodedStream(part) && part->BytesUntilLimit() == 0) return OkStatus();
  return DataLoss("corrupt entry before byte %d: not a valid %s", part->CurrentPosition(),
                  message->GetTypeName().c_str());
}

StatusOr<Blob> TakeBlob(const caffe::BlobProto& proto) {
  Blob blob;
  HP_ASSIGN_OR_RETURN(blob.data, TakeValues(proto));
  const auto values = static_cast<int64_t>(blob.data.size());
  const bool scalar = !proto.has_shape() && !proto.has_num() && !proto.has_channels() && !proto.has_height() &&
                      !proto.has_width() && values == 1;
  blob.legacy = !proto.has_shape() && !scalar;
  if (scalar) {
    blob.shape = Shape{1};  // Caffe writes no shape for a blob without axes
  } else if (blob.legacy) {
    blob.shape = Shape{proto.num(), proto.channels(), proto.height(), proto.width()};
  } else {
    blob.shape = Shape(std::vector<int64_t>(proto.shape().dim().begin(), proto.shape().dim().end()));
  }
  // Divides instead of multiplying: hostile dims could overflow a product.
  int64_t left = values;
  for (int64_t dim : blob.shape.dims()) left = dim > 0 && left % dim == 0 ? left / dim : -1;
  if (left != 1) {
    return DataLoss("blob has shape \"%s\", but %lld values", blob.shape.ToString().c_str(),
                    static_cast<long long>(values));
  }
  return blob;
}

int64_t BlobFieldBytes(const BlobRef& blob) {
  const int64_t bytes = BlobBytes(blob);
  return 1 + VarintBytes(bytes) + bytes;
}

Status WriteBlobField(int field, const BlobRef& blob, CodedOutputStream* out) {
  WriteLengthTag(field, BlobBytes(blob), out);
  if (const int64_t data = DataBytes(blob); data > 0) {
    WriteLengthTag(caffe::BlobProto::kDataFieldNumber, data, out);
    if (blob.data != nullptr) {
      out->WriteRaw(blob.data, static_cast<int>(data));
    } else if (blob.source) {
      HP_RETURN_IF_ERROR(CopySource(blob.source, data, out));
    } else {
      WriteZeros(data, out);
    }
  }
  WriteLengthTag(caffe::BlobProto::kShapeFieldNumber, ShapeBytes(blob.shape), out);
  if (blob.shape.rank() == 0) return OkStatus();
  WriteLengthTag(caffe::BlobShape::kDimFieldNumber, DimsBytes(blob.shape), out);
  for (int64_t dim : blob.shape.dims()) out->WriteVarint64(dim);
  return OkStatus();
}

}  // namespace hp
