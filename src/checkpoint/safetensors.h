#pragma once

#include "base/shape.h"
#include "checkpoint/weights.h"
#include "hp/status.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace hp {

/// A file of named tensors in the form that PyTorch's users exchange: 8 bytes that say how long the header is, the
/// header, a JSON object of names with dtype, shape and data_offsets, and the values, dense, little-endian.
/// Source: github.com/huggingface/safetensors, README.md, "Format".
///
/// Open reads the header alone, Read one tensor. Any thread; both block for the disk.
class SafetensorsFile {
 public:
  /// Where a tensor lies.
  struct Entry {
    std::string dtype;  ///< "F32", "BF16", "I64", ...
    Shape shape;        ///< in bounds (Shape::InBounds)
    int64_t begin = 0;  ///< its first byte in the file
    int64_t bytes = 0;
  };

  /// Opens the file and checks its header: what Read allocates is at most twice the bytes that the file has.
  /// @return kNotFound: no such file; kInvalidArgument: it cannot be opened or read; kDataLoss: it is truncated, has a
  /// header that is no JSON, above 16 MiB, nested deeper than the format is or of more than two million values, names a
  /// tensor twice, or has tensors that overlap, leave gaps, lie outside of the file or have another size than dtype and
  /// shape say. The message names file and tensor.
  static StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  /// All tensors by name, those of types that Read does not know too.
  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// The values of a tensor of `entries()` as float32. F32 keeps its bits; F16 and BF16 have their equals.
  /// @return kInvalidArgument: its dtype is another one, or it cannot be read; kDataLoss: the file has become shorter.
  StatusOr<Blob> Read(const std::string& name) const;

 private:
  SafetensorsFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status ReadHeader();
  Status ReadBytes(int64_t begin, int64_t bytes, char* out) const;

  const std::string path_;
  const int fd_;
  std::map<std::string, Entry> entries_;
};

/// Whether a path's name says that the file is one: it ends in ".safetensors".
bool IsSafetensorsPath(const std::string& path);

/// Writes tensors as F32, in the order of their names. Atomic, as WriteCaffeModel.
/// @return kInvalidArgument: the folder cannot be written, or a name has characters that are no text;
/// kResourceExhausted: the disk is full.
Status WriteSafetensors(const std::string& path, const std::map<std::string, Blob>& tensors);

}  // namespace hp
