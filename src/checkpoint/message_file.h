#pragma once

#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"

#include "google/protobuf/io/coded_stream.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace hp {

/// Protobuf's limit for one message, and so for one file of Caffe's.
constexpr int64_t kMaxMessageBytes2GiB = INT32_MAX;

/// Reads the sub-message of field `field` from `part`, which ends where the sub-message does.
using PartReader = std::function<Status(int field, google::protobuf::io::CodedInputStream* part)>;

/// Reads a file that is one binary protobuf message, sub-message by sub-message, so that a big one is never there
/// twice.
/// @param parts the fields that `reader` is called for, each a length-delimited one.
/// @param rest if not null, gets all other fields, serialised.
/// @return kNotFound, or kDataLoss naming the file and the byte where it stops making sense.
Status ReadMessageFile(const std::string& path, const std::set<int>& parts, const PartReader& reader,
                       std::string* rest);

/// Parses one message that fills `part` to its end.
Status ParsePart(google::protobuf::io::CodedInputStream* part, google::protobuf::MessageLite* message);

/// Moves the values out of `proto`. @return kDataLoss: the shape and the number of values do not agree.
StatusOr<Blob> TakeBlob(caffe::BlobProto* proto);

/// The bytes that WriteBlob writes for a field of number < 16.
int64_t BlobFieldBytes(const BlobRef& blob);
/// Writes `blob` as a BlobProto under field `field` straight from its memory; null data: zeros.
void WriteBlobField(int field, const BlobRef& blob, google::protobuf::io::CodedOutputStream* out);

}  // namespace hp
