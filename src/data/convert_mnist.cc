#include "base/format.h"
#include "base/philox.h"
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

/// Images and labels, checked to be equally many, each file at the first of them.
struct MnistFiles {
  IdxFile images, labels;
  uint32_t count() const { return images.dims[0]; }
  size_t image_bytes() const { return static_cast<size_t>(images.dims[1]) * images.dims[2]; }
  Status Changed() const {
    return DataLoss("%s or %s was changed while it was being read", images.path.c_str(), labels.path.c_str());
  }
};

Status OpenFiles(const std::string& image_file, const std::string& label_file, MnistFiles* files) {
  HP_RETURN_IF_ERROR(OpenIdx(image_file, 0x0803, "images", &files->images));
  HP_RETURN_IF_ERROR(OpenIdx(label_file, 0x0801, "labels", &files->labels));
  if (files->count() == files->labels.dims[0]) return OkStatus();
  return InvalidArgument("%s has %u images, but %s has %u labels", image_file.c_str(), files->count(),
                         label_file.c_str(), files->labels.dims[0]);
}

caffe::Datum DatumOf(const MnistFiles& files, int channels) {
  caffe::Datum datum;
  datum.set_channels(channels);
  datum.set_height(static_cast<int>(files.images.dims[1]));
  datum.set_width(static_cast<int>(files.images.dims[2]));
  return datum;
}

}  // namespace

Status ConvertMnist(const std::string& image_file, const std::string& label_file, const std::string& database,
                    const std::string& backend) {
  HP_ASSIGN_OR_RETURN(const DbBackend kind, ParseDbBackend(backend));
  MnistFiles files;
  HP_RETURN_IF_ERROR(OpenFiles(image_file, label_file, &files));
  HP_ASSIGN_OR_RETURN(const auto writer, DbWriter::Create(database, kind));
  caffe::Datum datum = DatumOf(files, 1);
  std::string pixels(files.image_bytes(), '\0');
  Progress progress("Converting " + database, files.count());
  for (uint32_t i = 0; i < files.count(); ++i) {
    char label = 0;
    if (!files.images.stream.read(pixels.data(), static_cast<std::streamsize>(pixels.size())) ||
        !files.labels.stream.get(label)) {
      return files.Changed();
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

// As Caffe's tool of that name, both images of a pair are drawn from all.
Status ConvertMnistPairs(const std::string& image_file, const std::string& label_file, const std::string& database,
                         const std::string& backend, const MnistPairOptions& options) {
  if (options.pairs < 0 || options.pairs > 99'999'999) {
    return InvalidArgument("%lld pairs; expected 0 to 99999999", static_cast<long long>(options.pairs));
  }
  HP_ASSIGN_OR_RETURN(const DbBackend kind, ParseDbBackend(backend));
  MnistFiles files;
  HP_RETURN_IF_ERROR(OpenFiles(image_file, label_file, &files));
  if (files.count() == 0) return InvalidArgument("%s has no images to draw pairs of", image_file.c_str());
  const size_t bytes = files.image_bytes();
  std::string pixels(files.count() * bytes, '\0'), labels(files.count(), '\0');
  if (!files.images.stream.read(pixels.data(), static_cast<std::streamsize>(pixels.size())) ||
      !files.labels.stream.read(labels.data(), static_cast<std::streamsize>(labels.size()))) {
    return files.Changed();
  }
  HP_ASSIGN_OR_RETURN(const auto writer, DbWriter::Create(database, kind));
  caffe::Datum datum = DatumOf(files, 2);
  const int64_t pairs = options.pairs > 0 ? options.pairs : files.count();
  const uint64_t key = StreamKey(options.seed, "", "pairs of images");
  Progress progress("Converting " + database, pairs);
  for (int64_t i = 0; i < pairs; ++i) {
    const auto words = Philox4x32(key, 0, static_cast<uint64_t>(i));
    const auto draw = [&](uint32_t word) { return static_cast<size_t>(uint64_t{word} * files.count() >> 32); };
    const size_t first = draw(words[0]), second = draw(words[1]);
    datum.set_data(pixels.substr(first * bytes, bytes) + pixels.substr(second * bytes, bytes));
    datum.set_label(labels[first] == labels[second] ? 1 : 0);
    HP_RETURN_IF_ERROR(writer->Put(Format("%08lld", static_cast<long long>(i)), datum.SerializeAsString()));
    progress.Count(2 * bytes);
  }
  HP_RETURN_IF_ERROR(writer->Finish());
  LOG(INFO) << "Wrote " << writer->count() << " records to " << writer->path();
  return OkStatus();
}

}  // namespace hp
