#pragma once

#include "base/format.h"
#include "checkpoint/summed_file.h"
#include "hp/status.h"
#include "proto/launch.pb.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>

namespace hp {

/// A file that is sent to somebody in pieces. One thread.
class FileSender {
 public:
  /// @return kNotFound, kInvalidArgument: as OpenInputFile.
  static StatusOr<std::unique_ptr<FileSender>> Open(const std::string& path);
  ~FileSender();
  FileSender(const FileSender&) = delete;

  /// The next piece; `last` is set in one that no other follows. Blocks for the disk.
  /// @return kInvalidArgument: it cannot be read.
  StatusOr<FileChunk> Next();

 private:
  FileSender(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
};

/// What a FilePut says of a file of this host. Blocks for the disk. @return kNotFound, kInvalidArgument: as SumFile.
StatusOr<FilePut> DescribeFile(const std::string& path);

/// A file that somebody sends: written whole or not at all, and only where no file of its content is. One thread.
class FileReceiver {
 public:
  /// @param put what to receive; folders on its path are made. @return whether chunks are wanted; errors as
  /// SummedFile::Create, and kInvalidArgument: a folder can't be made.
  StatusOr<bool> Begin(const FilePut& put);
  /// @return whether that was the last one, and the file has its name. kResourceExhausted: no disk space; kDataLoss:
  /// it is not what was announced.
  StatusOr<bool> Add(const FileChunk& chunk);

 private:
  // Agents of several hosts may write one file of a disk that they share.
  const std::string suffix_ = Format(".part-%08x", std::random_device()());
  FilePut put_;
  std::unique_ptr<SummedFile> file_;
};

/// Appends to a file. Errors show in its Sync.
void WriteTo(SummedFile* file, const std::string& data);

}  // namespace hp
