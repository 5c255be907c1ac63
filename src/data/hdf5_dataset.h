#pragma once

#include "base/shape.h"
#include "data/dataset.h"
#include "data/file_identity.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// What Hdf5Dataset reads of its files.
struct Hdf5Names {
  std::string data;   ///< of the dataset with the values
  std::string label;  ///< of the one with the labels; empty: none
};

/// The rows of HDF5 files that a list names, one file in each line, as Caffe's HDF5Data has them: record r is row r of
/// all files, one behind the other in the order of the list. A Datum of floats [C, H, W]; dims that a dataset lacks
/// are 1. Shapes are read at Open, and so are labels where a row has one; several, and values, when their record is.
/// Any thread; the library does one thing at a time.
class Hdf5Dataset : public DatumDataset {
 public:
  /// @return kFailedPrecondition: no HDF5 here (CheckHdf5); kNotFound, kInvalidArgument: list or file cannot be opened,
  /// a dataset is missing or has another shape than [N, C], [N, C, H] or [N, C, H, W] (labels: [N], and up to three
  /// dims behind), or files differ in shape; kDataLoss: no HDF5 file. List, line and
  /// file are named.
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& list, const Hdf5Names& names,
                                                 const DatasetOptions& options);
  ~Hdf5Dataset() override;

  int64_t size() const override { return size_; }
  std::string_view key(int64_t) const override { return ""; }  ///< rows have numbers alone
  Status ReadDatum(int64_t record, caffe::Datum* datum) override;
  Shape label_shape() const override { return label_; }
  float LabelOf(int64_t record, const caffe::Datum&) const override { return labels_.empty() ? 0 : labels_[record]; }
  Status ReadLabels(int64_t record, float* labels) override;
  Status CheckUnchanged() override;
  /// "train.txt:2: b.h5: row 17".
  std::string Describe(int64_t record) const override;

 private:
  struct File {
    std::string path;
    int line = 0;           // in the list
    int64_t first_row = 0;  // a record
    FileIdentity identity;
  };
  class Rows;  // a dataset of the library's
  class OpenFile;

  Hdf5Dataset(const std::string& list, const Hdf5Names& names);
  static StatusOr<std::unique_ptr<Dataset>> OpenAll(const std::string& list, const Hdf5Names& names);
  Status AddFile(File file);
  Status CheckFile(const File& file) const;
  std::string Where(const File& file) const;
  size_t FileOf(int64_t record) const;
  Status ReadShape(const OpenFile& open, const File& file, int64_t* rows);
  Status TakeLabels(const OpenFile& open, const File& file, int64_t rows);
  Status ReadRowLabels(const OpenFile& open, const std::string& set, int64_t rows);
  StatusOr<Shape> LabelShape(const OpenFile& open, const std::string& set, int64_t rows) const;
  uint64_t IndexHash() const override;  ///< of all labels, where a row has one
  Status ReadRow(int64_t record, bool labels, float* out);
  StatusOr<OpenFile*> Use(size_t file);

  const Hdf5Names names_;
  Shape row_;    // [C, H, W]
  Shape label_;  // of a row with several labels; of rank 0: it has one, or none
  int64_t size_ = 0;
  std::vector<File> files_;
  std::vector<float> labels_;                    // of all records, where each has one
  std::vector<std::unique_ptr<OpenFile>> open_;  // the latest last; only under the library's mutex
};

}  // namespace hp
