#include "commands/extract.h"

#include "base/format.h"
#include "commands/evaluate.h"
#include "data/db_writer.h"
#include "data/progress.h"

#include "glog/logging.h"

#include <algorithm>
#include <memory>

namespace hp {
namespace {

/// A blob's database. Datum has three axes beside the samples': the fourth and later ones are one.
class BlobWriter {
 public:
  BlobWriter(std::string blob, std::unique_ptr<DbWriter> writer) : blob_(std::move(blob)), writer_(std::move(writer)) {}

  Status Put(const Shape& shape, const std::vector<float>& values, int64_t rows) {
    if (shape.rank() == 0 || shape.dim(0) != rows) {
      return InvalidArgument("blob \"%s\" has the shape [%s]; expected values for each of %lld samples", blob_.c_str(),
                             shape.ToString().c_str(), static_cast<long long>(rows));
    }
    const int64_t count = shape.count() / rows;
    caffe::Datum datum;
    datum.set_channels(static_cast<int>(shape.rank() > 1 ? shape.dim(1) : 1));
    datum.set_height(static_cast<int>(shape.rank() > 2 ? shape.dim(2) : 1));
    datum.set_width(static_cast<int>(count / datum.channels() / datum.height()));
    for (int64_t row = 0; row < rows; ++row) {
      datum.mutable_float_data()->Assign(values.begin() + row * count, values.begin() + (row + 1) * count);
      const std::string key = Format("%010lld", static_cast<long long>(writer_->count()));
      HP_RETURN_IF_ERROR(writer_->Put(key, datum.SerializeAsString()));
    }
    return OkStatus();
  }
  Status Finish() {
    HP_RETURN_IF_ERROR(writer_->Finish());
    LOG(INFO) << "Extracted features of " << writer_->count() << " query images for feature blob " << blob_ << " to "
              << writer_->path();
    return OkStatus();
  }

 private:
  std::string blob_;
  std::unique_ptr<DbWriter> writer_;
};

}  // namespace

Status ExtractBlobs(const caffe::NetParameter& net, const CaffeModel& model, Device* device, Backend* backend,
                    const ExtractOptions& options) {
  if (options.blobs.empty() || options.blobs.size() != options.databases.size()) {
    return InvalidArgument("%zu blobs and %zu databases; expected one database for each blob", options.blobs.size(),
                           options.databases.size());
  }
  for (auto database = options.databases.begin(); database != options.databases.end(); ++database) {
    if (std::find(options.databases.begin(), database, *database) == database) continue;
    return InvalidArgument("--out names %s twice; expected a database for each blob", database->c_str());
  }
  HP_ASSIGN_OR_RETURN(const DbBackend kind, ParseDbBackend(options.backend));
  std::vector<BlobWriter> writers;
  for (size_t i = 0; i < options.blobs.size(); ++i) {
    HP_ASSIGN_OR_RETURN(auto writer, DbWriter::Create(options.databases[i], kind));
    writers.emplace_back(options.blobs[i], std::move(writer));
  }
  Progress progress("Extracting", 0);
  EvaluateOptions evaluation;
  evaluation.iterations = options.iterations;
  evaluation.threads = options.threads;
  evaluation.reader_threads = options.reader_threads;
  evaluation.cache_dir = options.cache_dir;
  evaluation.max_bad_records = options.max_bad_records;
  evaluation.blobs = options.blobs;
  evaluation.check_labels = false;  // no loss is printed: features of other classes are as good
  evaluation.on_batch = [&](int64_t, const std::vector<float>&, const ForwardNet& forward) {
    size_t bytes = 0;
    for (size_t i = 0; i < writers.size(); ++i) {
      HP_ASSIGN_OR_RETURN(const std::vector<float> values, forward.ReadBlob(i));
      HP_RETURN_IF_ERROR(writers[i].Put(forward.blob_shape(i), values, forward.rows()));
      bytes += values.size() * sizeof(float);
    }
    for (int64_t row = 0; row < forward.rows(); ++row) progress.Count(bytes / forward.rows());
    return OkStatus();
  };
  HP_RETURN_IF_ERROR(Evaluate(net, model, device, backend, evaluation).status());
  for (BlobWriter& writer : writers) HP_RETURN_IF_ERROR(writer.Finish());
  return OkStatus();
}

}  // namespace hp
