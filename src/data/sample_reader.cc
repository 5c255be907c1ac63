#include "data/sample_reader.h"

#include "proto/caffe.pb.h"

#include <glog/logging.h>

#include <algorithm>

namespace hp {

SampleReader::SampleReader(std::vector<RecordSource> sources, SampleLayout layout, int64_t max_bad_records)
    : sources_(std::move(sources)), layout_(std::move(layout)), check_(max_bad_records > 0), bad_(max_bad_records) {
  CHECK(!sources_.empty());
  CHECK_EQ(layout_.others.size(), layout_.shape.others.size());
  AddBlock(layout_.data, layout_.shape.data);
  for (size_t i = 0; i < layout_.others.size(); ++i) AddBlock(layout_.others[i], layout_.shape.others[i]);
  for (const RecordSource& source : sources_) most_records_ = std::max(most_records_, source.order.size());
}

void SampleReader::AddBlock(SampleLayout::Top from, const Shape& shape) {
  Block block{from, shape.count(), -1};
  if (from.second > 0) {
    block.beside = beside_of_row_;
    beside_of_row_ += block.columns;
  }
  blocks_.push_back(block);
}

void SampleReader::Resize(int64_t rows, UndecodedSamples* samples) const {
  samples->records.resize(rows * sources_.size());
  samples->data.resize(rows * sources_.size());
  samples->labels.resize(rows * shape().labels());
  samples->beside.resize(rows * beside_of_row_);
}

Status SampleReader::Read(int64_t sample, int64_t row, UndecodedSamples* samples) {
  Status status;
  for (int64_t ahead = 0; ahead < most_records_; ++ahead) {
    int64_t record = 0;
    status = ReadAll(sample, ahead, row, samples, &record);
    if (status.ok()) return status;
    HP_RETURN_IF_ERROR(bad_.Skip(record, status));
  }
  return status;
}

// The records that are `ahead` of the sample's. @param record is, after an error, a number for the one that has it,
// which no other of any source has.
Status SampleReader::ReadAll(int64_t sample, int64_t ahead, int64_t row, UndecodedSamples* samples, int64_t* record) {
  const auto count = static_cast<int>(sources_.size());
  for (int s = 0; s < count; ++s) {
    const RecordOrder& order = sources_[s].order;
    const int64_t own = (order.Record(sample) + ahead) % order.size();
    samples->records[row * count + s] = own;
    *record = own * count + s;
    HP_RETURN_IF_ERROR(ReadSource(s, sample, row, samples));
  }
  return OkStatus();
}

Status SampleReader::ReadSource(int source, int64_t sample, int64_t row, UndecodedSamples* samples) {
  const RecordSource& from = sources_[source];
  const size_t at = row * sources_.size() + source;
  HP_RETURN_IF_ERROR(from.dataset->ReadDatum(samples->records[at], &samples->data[at]));
  if (check_) {
    HP_RETURN_IF_ERROR(
        from.transformer->Check(samples->data[at]).Prepend(from.dataset->Describe(samples->records[at])));
  }
  if (layout_.labels && layout_.labels->first == source) {
    float* const labels = samples->labels.data() + row * shape().labels();
    HP_RETURN_IF_ERROR(ReadTop(*layout_.labels, sample, row, *samples, labels));
  }
  float* const beside = samples->beside.data() + row * beside_of_row_;
  for (const Block& block : blocks_) {
    if (block.beside < 0 || block.from.first != source) continue;
    HP_RETURN_IF_ERROR(ReadTop(block.from, sample, row, *samples, beside + block.beside));
  }
  return OkStatus();
}

Status SampleReader::ReadTop(SampleLayout::Top from, int64_t sample, int64_t row, const UndecodedSamples& samples,
                             float* out) const {
  const auto [source, top] = from;
  if (top == 0) return Transform(source, sample, row, samples, out);
  const size_t at = row * sources_.size() + source;
  return sources_[source].dataset->ReadTop(samples.records[at], top, samples.data[at], out);
}

Status SampleReader::Transform(int source, int64_t sample, int64_t row, const UndecodedSamples& samples,
                               float* out) const {
  const size_t at = row * sources_.size() + source;
  const Status status = sources_[source].transformer->Transform(samples.data[at], sample, out);
  return status.ok() ? status : status.Prepend(sources_[source].dataset->Describe(samples.records[at]));
}

Status SampleReader::Decode(int64_t sample, int64_t row, int64_t rows, UndecodedSamples* samples, float* out) const {
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    float* const to = out + (b == 0 ? 0 : shape().OtherAt(b - 1, rows)) + row * block.columns;
    if (block.beside < 0) {
      HP_RETURN_IF_ERROR(Transform(block.from.first, sample, row, *samples, to));
    } else {
      std::copy_n(samples->beside.data() + row * beside_of_row_ + block.beside, block.columns, to);
    }
  }
  for (size_t s = 0; s < sources_.size(); ++s) caffe::Datum().Swap(&samples->data[row * sources_.size() + s]);
  const int64_t labels = shape().labels();
  if (labels <= 1) return OkStatus();
  float* const behind = out + rows * blocks_[0].columns;
  std::copy_n(samples->labels.data() + row * labels, labels, behind + row * labels);
  return OkStatus();
}

}  // namespace hp
