#include "base/format.h"
#include "data/db_writer.h"
#include "data/progress.h"
#include "hp/convert.h"
#include "proto/caffe.pb.h"

#include <glog/logging.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

namespace hp {
namespace {

constexpr int kSize = 32, kChannels = 3, kClasses = 10;
constexpr size_t kImageBytes = kChannels * kSize * kSize;
constexpr size_t kRecordBytes = 1 + kImageBytes;  // the label goes ahead
constexpr size_t kRecordsOfAFile = 10000;

// @return the number of records in all files, which are looked at before anything is written.
StatusOr<int64_t> CheckFiles(const std::vector<std::string>& files) {
  int64_t records = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(file, error);
    if (error) return NotFound("%s: %s", file.c_str(), error.message().c_str());
    if (bytes == 0 || bytes % kRecordBytes != 0) {
      return DataLoss("%s is truncated or not a CIFAR-10 file: it has %ju bytes, expected a multiple of %zu",
                      file.c_str(), bytes, kRecordBytes);
    }
    LOG_IF(WARNING, bytes / kRecordBytes != kRecordsOfAFile)
        << file << " has " << bytes / kRecordBytes << " records; CIFAR-10's own files have " << kRecordsOfAFile;
    records += static_cast<int64_t>(bytes / kRecordBytes);
  }
  return records;
}

Status ConvertFile(const std::string& path, DbWriter* writer, Progress* progress) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("can't read %s", path.c_str());
  std::string record(kRecordBytes, '\0');
  caffe::Datum datum;
  datum.set_channels(kChannels);
  datum.set_height(kSize);
  datum.set_width(kSize);
  for (int64_t i = 0; file.read(record.data(), kRecordBytes); ++i) {
    const int label = static_cast<unsigned char>(record[0]);
    if (label >= kClasses) {
      return DataLoss("%s: record %lld has the label %d, expected 0 to %d: not a CIFAR-10 file", path.c_str(),
                      static_cast<long long>(i), label, kClasses - 1);
    }
    datum.set_label(label);
    datum.set_data(record.data() + 1, kImageBytes);
    HP_RETURN_IF_ERROR(
        writer->Put(Format("%05lld", static_cast<long long>(writer->count())), datum.SerializeAsString()));
    progress->Count(kRecordBytes);
  }
  if (!file.eof() || file.gcount() != 0) return DataLoss("%s was changed while it was being read", path.c_str());
  return OkStatus();
}

Status ConvertFiles(const std::vector<std::string>& files, int64_t records, DbWriter* writer) {
  Progress progress("Converting " + writer->path(), records);
  for (const std::string& file : files) HP_RETURN_IF_ERROR(ConvertFile(file, writer, &progress));
  return OkStatus();
}

}  // namespace

Status ConvertCifar(const std::string& input_folder, const std::string& output_folder, const std::string& backend) {
  HP_ASSIGN_OR_RETURN(const DbBackend kind, ParseDbBackend(backend));
  std::vector<std::string> train_files;
  for (int i = 1; i <= 5; ++i) train_files.push_back(Format("%s/data_batch_%d.bin", input_folder.c_str(), i));
  const std::vector<std::string> test_files = {input_folder + "/test_batch.bin"};
  HP_ASSIGN_OR_RETURN(const int64_t train_records, CheckFiles(train_files));
  HP_ASSIGN_OR_RETURN(const int64_t test_records, CheckFiles(test_files));
  std::error_code error;
  std::filesystem::create_directories(output_folder, error);
  if (error) return InvalidArgument("cannot create %s: %s", output_folder.c_str(), error.message().c_str());
  const std::string prefix = output_folder + "/cifar10_";
  HP_ASSIGN_OR_RETURN(const auto train, DbWriter::Create(prefix + "train_" + DbBackendName(kind), kind));
  HP_ASSIGN_OR_RETURN(const auto test, DbWriter::Create(prefix + "test_" + DbBackendName(kind), kind));
  HP_RETURN_IF_ERROR(ConvertFiles(train_files, train_records, train.get()));
  HP_RETURN_IF_ERROR(ConvertFiles(test_files, test_records, test.get()));
  for (DbWriter* writer : {train.get(), test.get()}) {
    HP_RETURN_IF_ERROR(writer->Finish());
    LOG(INFO) << "Wrote " << writer->count() << " records to " << writer->path();
  }
  return OkStatus();
}

}  // namespace hp
