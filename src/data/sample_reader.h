#pragma once

#include "base/sample_shape.h"
#include "data/bad_records.h"
#include "data/dataset.h"
#include "data/order.h"
#include "data/transformer.h"
#include "hp/status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// One of the sources of a phase: what sample s is read from. All must outlive their reader.
struct RecordSource {
  Dataset* dataset = nullptr;
  RecordOrder order;                         ///< of its records
  const Transformer* transformer = nullptr;  ///< of its first top
};

/// Which tops of the sources make a sample, and where they lie. A top is (index of its source, top of its dataset).
struct SampleLayout {
  using Top = std::pair<int, int>;
  SampleShape shape;  ///< of the tops below
  Top data = {0, 0};
  std::optional<Top> labels;  ///< nothing: the label of each row is 0
  std::vector<Top> others;
  /// Those of data and others that are told ahead of the images as well, behind the labels of each row.
  std::vector<Top> also_ahead;
};

/// Samples whose records are read; their images are not decoded. Rows are independent of each other.
struct UndecodedSamples {
  std::vector<int64_t> records;    ///< [rows, sources]
  std::vector<caffe::Datum> data;  ///< [rows, sources]
  std::vector<float> ahead;        ///< [rows, labels and the tops of SampleLayout::also_ahead]
  std::vector<float> beside;       ///< [rows, numbers of the other tops that no Datum holds]
};

/// Makes samples of the records of several sources: sample s is a record of each, which it is in that source's order.
/// Any thread, but of a row one at a time.
class SampleReader {
 public:
  /// @param sources at least one.
  /// @param max_bad_records how many may be unreadable. Instead of such a one the next of each source is taken that is
  /// good in all. With it, encoded images are decoded in Read, too.
  SampleReader(std::vector<RecordSource> sources, SampleLayout layout, int64_t max_bad_records);

  const SampleShape& shape() const { return layout_.shape; }
  /// Makes room for `rows` samples.
  void Resize(int64_t rows, UndecodedSamples* samples) const;
  /// Reads sample `sample`, its labels too, into row `row`. Blocks for the disk.
  /// @return as Dataset::Read or Transformer::Transform; the message names record, key and file.
  Status Read(int64_t sample, int64_t row, UndecodedSamples* samples);
  /// Writes row `row`, which is sample `sample`, to its places in `out`, and frees the row's Datums.
  /// @param rows of `samples`. @param out float32, all of them as SampleShape places them. @return as Read.
  Status Decode(int64_t sample, int64_t row, int64_t rows, UndecodedSamples* samples, float* out) const;

  /// Which records a row is of. @param row counted over all of `pieces`. "FILE:LINE: IMAGE", or as Dataset::Describe.
  std::string Describe(int64_t row, std::span<const UndecodedSamples* const> pieces) const;

  /// Whether samples can be taken raw at all: each is one image and at most one label.
  static bool MayBeRaw(const SampleLayout& layout);
  /// Whether row `row` can, of such a layout: its record has bytes.
  bool HasBytes(int64_t row, const UndecodedSamples& samples) const;
  /// Decode, but for what is left to the rule of the source (raw_images.h). @param out RawImagesBytes(rows, values).
  /// @param encoded what GoesEncoded stays encoded.
  Status DecodeRaw(int64_t sample, int64_t row, int64_t rows, bool encoded, UndecodedSamples* samples,
                   std::byte* out) const;
  /// For a row that can't be taken raw because others of its piece have floats.
  /// @return kInvalidArgument, with the record named: it would have been left encoded, so that its pixels would depend
  /// on what else is in the piece.
  Status CheckNotEncoded(int64_t row, const UndecodedSamples& samples) const;

 private:
  // What lies in a sample beside labels.
  struct Block {
    SampleLayout::Top from;
    int64_t columns = 0;
    int64_t ahead = -1, beside = -1;  // where it begins in a row of UndecodedSamples; both -1: its Datum is decoded
  };

  void FreeData(int64_t row, UndecodedSamples* samples) const;
  void AddBlock(SampleLayout::Top from, const Shape& shape);
  void PlaceAhead();
  /// Where a row of a block lies before it is decoded.
  float* UndecodedRow(const Block& block, int64_t row, UndecodedSamples* samples) const;
  Status ReadAll(int64_t sample, int64_t ahead, int64_t row, UndecodedSamples* samples, int64_t* record);
  Status ReadSource(int source, int64_t sample, int64_t row, UndecodedSamples* samples);
  Status ReadTop(SampleLayout::Top from, int64_t sample, int64_t row, const UndecodedSamples& samples,
                 float* out) const;
  Status Transform(int source, int64_t sample, int64_t row, const UndecodedSamples& samples, float* out) const;

  const std::vector<RecordSource> sources_;
  const SampleLayout layout_;
  const bool check_;           // images, before their labels are told
  std::vector<Block> blocks_;  // data, then others
  int64_t ahead_of_row_ = 0, beside_of_row_ = 0;
  int64_t most_records_ = 0;  // of a source
  BadRecords bad_;
};

}  // namespace hp
