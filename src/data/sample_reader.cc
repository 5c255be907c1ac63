#include "data/sample_reader.h"

#include "proto/caffe.pb.h"

#include <glog/logging.h>

#include <algorithm>

namespace hp {

static_assert(sizeof(RawImage) + SampleShape::kLeastRaw <= SampleShape::kLeastRaw * sizeof(float),
              "raw images lie in buffers for floats");

SampleReader::SampleReader(std::vector<RecordSource> sources, SampleLayout layout, int64_t max_bad_records)
    : sources_(std::move(sources)), layout_(std::move(layout)), check_(max_bad_records > 0), bad_(max_bad_records) {
  CHECK(!sources_.empty());
  CHECK_EQ(layout_.others.size(), layout_.shape.others.size());
  AddBlock(layout_.data, layout_.shape.data);
  for (size_t i = 0; i < layout_.others.size(); ++i) AddBlock(layout_.others[i], layout_.shape.others[i]);
  PlaceAhead();
  for (const RecordSource& source : sources_) most_records_ = std::max(most_records_, source.order.size());
}

void SampleReader::AddBlock(SampleLayout::Top from, const Shape& shape) { blocks_.push_back({from, shape.count()}); }

void SampleReader::PlaceAhead() {
  ahead_of_row_ = shape().labels();
  for (const SampleLayout::Top& top : layout_.also_ahead) {
    const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.from == top; });
    CHECK(block != blocks_.end());
    block->ahead = ahead_of_row_;
    ahead_of_row_ += block->columns;
  }
  for (Block& block : blocks_) {
    if (block.from.second == 0 || block.ahead >= 0) continue;
    block.beside = beside_of_row_;
    beside_of_row_ += block.columns;
  }
}

float* SampleReader::UndecodedRow(const Block& block, int64_t row, UndecodedSamples* samples) const {
  if (block.ahead >= 0) return samples->ahead.data() + row * ahead_of_row_ + block.ahead;
  return samples->beside.data() + row * beside_of_row_ + block.beside;
}

void SampleReader::Resize(int64_t rows, UndecodedSamples* samples) const {
  samples->records.resize(rows * sources_.size());
  samples->data.resize(rows * sources_.size());
  samples->ahead.resize(rows * ahead_of_row_);
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
    HP_RETURN_IF_ERROR(ReadTop(*layout_.labels, sample, row, *samples, samples->ahead.data() + row * ahead_of_row_));
  }
  for (const Block& block : blocks_) {
    if (block.from.first != source || (block.ahead < 0 && block.beside < 0)) continue;
    HP_RETURN_IF_ERROR(ReadTop(block.from, sample, row, *samples, UndecodedRow(block, row, samples)));
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
    if (block.ahead < 0 && block.beside < 0) {
      HP_RETURN_IF_ERROR(Transform(block.from.first, sample, row, *samples, to));
    } else {
      std::copy_n(UndecodedRow(block, row, samples), block.columns, to);
    }
  }
  FreeData(row, samples);
  const int64_t labels = shape().labels();
  if (labels <= 1) return OkStatus();
  float* const behind = out + rows * blocks_[0].columns;
  std::copy_n(samples->ahead.data() + row * ahead_of_row_, labels, behind + row * labels);
  return OkStatus();
}

void SampleReader::FreeData(int64_t row, UndecodedSamples* samples) const {
  for (size_t s = 0; s < sources_.size(); ++s) caffe::Datum().Swap(&samples->data[row * sources_.size() + s]);
}

std::string SampleReader::Describe(int64_t row, std::span<const UndecodedSamples* const> pieces) const {
  const auto rows_of = [this](const UndecodedSamples* piece) {
    return std::ssize(piece->records) / std::ssize(sources_);
  };
  while (row >= rows_of(pieces.front())) {
    row -= rows_of(pieces.front());
    pieces = pieces.subspan(1);
  }
  std::string text;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const int64_t record = pieces.front()->records[row * sources_.size() + i];
    text += (i == 0 ? "" : ", ") + sources_[i].dataset->Describe(record);
  }
  return text;
}

bool SampleReader::MayBeRaw(const SampleLayout& layout) {
  return layout.shape.may_be_raw() && layout.data.second == 0 && layout.also_ahead.empty();
}

bool SampleReader::HasBytes(int64_t row, const UndecodedSamples& samples) const {
  return Transformer::HasBytes(samples.data[row * sources_.size() + layout_.data.first]);
}

Status SampleReader::CheckNotEncoded(int64_t row, const UndecodedSamples& samples) const {
  const RecordSource& source = sources_[layout_.data.first];
  const size_t at = row * sources_.size() + layout_.data.first;
  if (!source.transformer->GoesEncoded(samples.data[at])) return OkStatus();
  return InvalidArgument(
      "%s: a JPEG among records of floats, which the device can't decode; expected records of one kind, or "
      "jpeg_decoder: HOST",
      source.dataset->Describe(samples.records[at]).c_str());
}

Status SampleReader::DecodeRaw(int64_t sample, int64_t row, int64_t rows, bool encoded, UndecodedSamples* samples,
                               std::byte* out) const {
  const int source = layout_.data.first;
  const size_t at = row * sources_.size() + source;
  auto* const image = reinterpret_cast<RawImage*>(out) + row;
  auto* const bytes = reinterpret_cast<uint8_t*>(reinterpret_cast<RawImage*>(out) + rows) + row * blocks_[0].columns;
  const Transformer& transformer = *sources_[source].transformer;
  if (!encoded || !transformer.TakeEncoded(samples->data[at], sample, image, bytes)) {
    const Status status = transformer.TakeRaw(samples->data[at], sample, image, bytes);
    if (!status.ok()) return status.Prepend(sources_[source].dataset->Describe(samples->records[at]));
  }
  FreeData(row, samples);
  return OkStatus();
}

}  // namespace hp
