#include "base/format.h"
#include "data/db_writer.h"
#include "data/progress.h"
#include "hp/convert.h"
#include "proto/caffe.pb.h"

#include <glog/logging.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace hp {
namespace {

// An IDX file: a magic number, the dimensions (all big-endian, 32 bits), then bytes.
struct IdxFile {
  std::string path;
  std::ifstream stream;
  std::vector<uint32_t> dims;
};

StatusOr<uint32_t> ReadBigEndian(IdxFile* file) {
  unsigned char bytes[4];
  if (!file->stream.read(reinterpret_cast<char*>(bytes), 4)) {
    return DataLoss("%s is truncated: its header is incomplete", file->path.c_str());
  }
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// @param magic 0x0800 + number of dimensions.
Status OpenIdx(const std::string& path, uint32_t magic, const char* what, IdxFile* file) {
  file->path = path;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return NotFound("%s: %s", path.c_str(), error.message().c_str());
  file->stream.open(path, std::ios::binary);
  if (!file->stream) return InvalidArgument("%s can't be read", path.c_str());
  HP_ASSIGN_OR_RETURN(const uint32_t found, ReadBigEndian(file));
  if (found >> 16 == 0x1F8B) return InvalidArgument("%s is compressed: gunzip it first", path.c_str());
  if (found != magic) {
    return InvalidArgument("%s is not an MNIST file of %s: its magic number is %u, expected %u", path.c_str(), what,
                           found, magic);
  }
  // In steps that can't overflow: no dimension may promise more than the file has.
  uint64_t needed = 1;
  const uint32_t rank = magic & 0xFF;
  for (uint32_t i = 0; i < rank; ++i) {
    HP_ASSIGN_OR_RETURN(const uint32_t dim, ReadBigEndian(file));
    file->dims.push_back(dim);
    needed *= dim;
    if (needed > bytes) break;
  }
  const uint64_t header = 4 + 4 * rank;
  if (file->dims.size() < rank || bytes < header + needed) {
    return DataLoss("%s is truncated: it has %ju bytes, fewer than its header requires", path.c_str(), bytes);
  }
  return OkStatus();
}

}  // namespace

Status ConvertMnist(const std::string& image_file, const std::string& label_file, const std::string& database,
                    const std::string& backend) {
  HP_ASSIGN_OR_RETURN(const DbBackend kind, ParseDbBackend(backend));
  IdxFile images, labels;
  HP_RETURN_IF_ERROR(OpenIdx(image_file, 0x0803, "images", &images));
  HP_RETURN_IF_ERROR(OpenIdx(label_file, 0x0801, "labels", &labels));
  const uint32_t count = images.dims[0];
  if (count != labels.dims[0]) {
    return InvalidArgument("%s has %u images, but %s has %u labels", image_file.c_str(), count, label_file.c_str(),
                           labels.dims[0]);
  }
  HP_ASSIGN_OR_RETURN(const auto writer, DbWriter::Create(database, kind));
  caffe::Datum datum;
  datum.set_channels(1);
  datum.set_height(static_cast<int>(images.dims[1]));
  datum.set_width(static_cast<int>(images.dims[2]));
  std::string pixels(static_cast<size_t>(images.dims[1]) * images.dims[2], '\0');
  Progress progress("Converting " + database, count);
  for (uint32_t i = 0; i < count; ++i) {
    char label = 0;
    if (!images.stream.read(pixels.data(), static_cast<std::streamsize>(pixels.size())) || !labels.stream.get(label)) {
      return DataLoss("%s or %s was changed while it was being read", image_file.c_str(), label_file.c_str());
    }
    datum.set_data(pixels);
    datum.set_label(static_cast<unsigned char>(label));
    HP_RETURN_IF_ERROR(writer->Put(Format("%08u", i), datum.SerializeAsString()));
    progress.Count(pixels.size());
  }
  HP_RETURN_IF_ERROR(writer->Finish());
  LOG(INFO) << "Wrote " << writer->count() << " records to " << writer->path();
  return OkStatus();
}

}  // namespace hp
