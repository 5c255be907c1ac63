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

/// Protobuf's limit for one message, in bytes, and so for one file of Caffe's.
constexpr int64_t kMaxMessageBytes2GiB = INT32_MAX;

/// Reads the sub-message of field `field` from `part`, whose limit is the sub-message's end. Must consume all of it, as
/// ParsePart does. An error ends the reading of the file.
using PartReader = std::function<Status(int field, google::protobuf::io::CodedInputStream* part)>;

/// Reads a file that is one binary protobuf message, sub-message by sub-message, so that only one sub-message
/// at a time is in memory beside what the reader makes of it.
/// @param parts the numbers of the fields that `reader` is called for, in the order of the file; sub-messages only.
/// @param rest gets all other fields, serialised; may be null.
/// @return kNotFound: no such file; kInvalidArgument: it can't be opened, or is not a regular file; kDataLoss: empty,
/// over 2 GiB, or no protobuf message, with the byte where it stops being one; or the error of `reader`. All name the
/// file.
Status ReadMessageFile(const std::string& path, const std::set<int>& parts, const PartReader& reader,
                       std::string* rest);

/// Parses one message that fills `part` to its limit. @return kDataLoss: the bytes are no such message.
Status ParsePart(google::protobuf::io::CodedInputStream* part, google::protobuf::MessageLite* message);

/// Makes a Blob of a BlobProto; values of type double are rounded to float32, and raw ones (NVIDIA's Caffe) widened.
/// @return kDataLoss: the shape and the number of values do not agree, or raw values are of no type of numbers.
StatusOr<Blob> TakeBlob(const caffe::BlobProto& proto);

/// The bytes that WriteBlobField writes for a field number below 16.
int64_t BlobFieldBytes(const BlobRef& blob);
/// Writes `blob` as a BlobProto under field `field` straight from the caller's memory or its source.
/// @return the error of its source; those of the disk show in the stream below `out`.
Status WriteBlobField(int field, const BlobRef& blob, google::protobuf::io::CodedOutputStream* out);

}  // namespace hp
