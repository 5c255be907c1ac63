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

/// The rows of HDF5 files that a list names, one file in each line, as Caffe's HDF5Data has them: record r is row r of
/// all files, one behind the other in the order of the list, and its tops are datasets of these names. The first is a
/// Datum of floats [C, H, W], whatever dims it has (first_shape). Shapes are read at Open, and so are the other tops
/// where a row has one number; several, and the first, when their record is. Any thread; the library does one thing at
/// a time.
class Hdf5Dataset : public DatumDataset {
 public:
  /// @return kFailedPrecondition: no HDF5 here (CheckHdf5); kNotFound, kInvalidArgument: list or file cannot be opened,
  /// a dataset is missing or has another shape than [N] and up to three dims behind, or another number of rows than
  /// the first top's, or files differ in shape; kDataLoss: no HDF5 file. List, line and file are named.
  /// @param tops names of datasets, at least one.
  static StatusOr<std::unique_ptr<Dataset>> Open(const std::string& list, const std::vector<std::string>& tops,
                                                 const DatasetOptions& options);
  ~Hdf5Dataset() override;

  int64_t size() const override { return size_; }
  std::string_view key(int64_t) const override { return ""; }  ///< rows have numbers alone
  Status ReadDatum(int64_t record, caffe::Datum* datum) override;
  int tops() const override { return static_cast<int>(tops_.size()); }
  Shape top_shape(int top) const override { return top < tops() ? tops_[top].shape : Shape(); }
  Shape first_shape(const Shape&) const override { return tops_[0].shape; }
  Status ReadTop(int64_t record, int top, const caffe::Datum& datum, float* values) override;
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
  struct Top {
    std::string name;
    Shape shape;                 // of a row
    std::vector<float> numbers;  // of all records, of another top than the first where each has one
  };
  class Rows;  // a dataset of the library's
  class OpenFile;

  Hdf5Dataset(const std::string& list, const std::vector<std::string>& tops);
  static StatusOr<std::unique_ptr<Dataset>> OpenAll(const std::string& list, const std::vector<std::string>& tops);
  Status AddFile(File file);
  Status CheckFile(const File& file) const;
  std::string Where(const File& file) const;
  size_t FileOf(int64_t record) const;
  std::string NameOf(const File& file, int top) const;
  Status TakeTop(const OpenFile& open, const File& file, int top, int64_t* rows);
  StatusOr<Shape> RowShape(const Rows& set, const File& file, int top, int64_t* rows) const;
  Status ReadNumbers(const OpenFile& open, const File& file, int top, int64_t rows);
  uint64_t IndexHash() const override;  ///< of the numbers of all tops
  Status ReadRow(int64_t record, int top, float* out);
  StatusOr<OpenFile*> Use(size_t file);

  std::vector<Top> tops_;
  int64_t size_ = 0;
  std::vector<File> files_;
  std::vector<std::unique_ptr<OpenFile>> open_;  // the latest last; only under an Hdf5Lock
};

}  // namespace hp
