#include "data/reader.h"

#include "base/mutex.h"

#include "data_test_util.h"
#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

namespace hp {
namespace {

using testing::HasSubstr;

// Records in memory: image of record r is filled with r, its label is r + 0.
class FakeDataset : public Dataset {
 public:
  explicit FakeDataset(int64_t size) : Dataset("fake.db"), size_(size) {}
  int64_t size() const override { return size_; }
  std::string_view key(int64_t) const override { return "some-key"; }
  Status Read(int64_t record, std::string* bytes) override {
    {
      MutexLock lock(&mutex_);
      reads_.push_back(record);
    }
    if (record == broken_) return DataLoss("fake.db is broken");
    caffe::Datum datum;
    datum.set_channels(1);
    datum.set_height(2);
    datum.set_width(record == odd_ ? width_ + 1 : width_);
    datum.set_label(static_cast<int>(record));
    datum.set_data(std::string(datum.width() * 2, static_cast<char>(record)));
    if (record == floats_) {
      datum.clear_data();
      for (int i = 0; i < 2 * width_; ++i) datum.add_float_data(0.5f);
    }
    *bytes = record == rubbish_ ? "\xff\xff\xff" : datum.SerializeAsString();
    return OkStatus();
  }
  Status CheckUnchanged() override { return OkStatus(); }

  std::vector<int64_t> reads() {
    MutexLock lock(&mutex_);
    return reads_;
  }
  int64_t broken_ = -1, odd_ = -1, rubbish_ = -1, floats_ = -1;
  int width_ = 3;

 private:
  const int64_t size_;
  Mutex mutex_;
  std::vector<int64_t> reads_ HP_GUARDED_BY(mutex_);
};

/// Two labels for each record: its number, and that negated.
class TwoLabels : public FakeDataset {
 public:
  using FakeDataset::FakeDataset;
  Shape top_shape(int) const override { return {2, 1}; }
  Status ReadTop(int64_t record, int, const caffe::Datum&, float* labels) override {
    if (record == bad_label_) return DataLoss("fake.db has a bad label");
    labels[0] = static_cast<float>(record);
    labels[1] = -labels[0];
    return OkStatus();
  }
  int64_t bad_label_ = -1;
};

/// Reads nothing until so many threads read at once.
class MeetingPlace : public FakeDataset {
 public:
  MeetingPlace(int64_t size, int threads) : FakeDataset(size), missing_(threads) {}
  Status Read(int64_t record, std::string* bytes) override {
    {
      MutexLock lock(&meeting_);
      --missing_;
      all_here_.SignalAll();
      while (missing_ > 0) all_here_.Wait(&meeting_);
    }
    return FakeDataset::Read(record, bytes);
  }

 private:
  Mutex meeting_;
  CondVar all_here_;
  int missing_ HP_GUARDED_BY(meeting_);
};

/// Of images and labels of one source.
BatchReader ReaderOf(Dataset* dataset, RecordOrder order, const Transformer* transformer, BatchReaderOptions options) {
  SampleLayout layout;
  layout.shape = {transformer->output_shape(), dataset->top_shape(1)};
  layout.labels = {0, 1};
  return BatchReader({{dataset, order, transformer}}, layout, std::move(options));
}

std::unique_ptr<Transformer> PlainTransformer() {
  const caffe::Datum first = NoiseDatum(0, 1, 2, 3, 0);
  return *Transformer::Create({}, true, 1, "data", first, "record 0");
}

// A global batch of `batch_rows`, of which this node has rows [first_row, first_row + sum of pieces).
struct Division {
  int64_t batch_rows, first_row;
  std::vector<int64_t> pieces;

  Piece At(int64_t number) const {
    const int64_t per_batch = static_cast<int64_t>(pieces.size());
    Piece piece;
    piece.batch = number / per_batch;
    piece.first_row_in_batch = first_row;
    for (int64_t i = 0; i < number % per_batch; ++i) piece.first_row_in_batch += pieces[i];
    piece.first_sample = piece.batch * batch_rows + piece.first_row_in_batch;
    piece.rows = pieces[number % per_batch];
    return piece;
  }
  int64_t Rows() const {
    int64_t rows = 0;
    for (const int64_t r : pieces) rows += r;
    return rows;
  }
};

// What happened, in the order in which it was told, and a way to wait for it.
class Recorder {
 public:
  BatchReaderOptions Options(const Division& division, int ring, int threads) {
    BatchReaderOptions options;
    options.max_rows = *std::max_element(division.pieces.begin(), division.pieces.end());
    options.ring = ring;
    options.threads = threads;
    options.piece = [division](int64_t n) { return division.At(n); };
    options.on_labels = [this](const BatchLabels& labels) {
      Add(Format("labels %lld", static_cast<long long>(labels.batch)));
      MutexLock lock(&mutex_);
      labels_[labels.batch] = {labels.values.begin(), labels.values.end()};
      first_row_[labels.batch] = labels.first_row;
    };
    options.on_ready = [this](int64_t piece) { Add(Format("ready %lld", static_cast<long long>(piece))); };
    options.on_error = [this](const Status& status) {
      {
        MutexLock lock(&mutex_);
        error_ = status;
      }
      Add("error");
    };
    return options;
  }
  void WaitFor(const std::string& event) {
    MutexLock lock(&mutex_);
    while (std::find(events_.begin(), events_.end(), event) == events_.end()) changed_.Wait(&mutex_);
  }
  std::vector<std::string> events() {
    MutexLock lock(&mutex_);
    return events_;
  }
  std::vector<float> labels(int64_t batch) {
    MutexLock lock(&mutex_);
    return labels_.at(batch);
  }
  int64_t first_row(int64_t batch) {
    MutexLock lock(&mutex_);
    return first_row_.at(batch);
  }
  Status error() {
    MutexLock lock(&mutex_);
    return error_;
  }
  void Clear() {
    MutexLock lock(&mutex_);
    events_.clear();
  }

 private:
  void Add(const std::string& event) {
    CHECK(!inside_.exchange(true)) << "two callbacks at once";
    {
      MutexLock lock(&mutex_);
      events_.push_back(event);
      changed_.SignalAll();
    }
    inside_ = false;
  }

  std::atomic<bool> inside_{false};
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> events_ HP_GUARDED_BY(mutex_);
  std::map<int64_t, std::vector<float>> labels_ HP_GUARDED_BY(mutex_);
  std::map<int64_t, int64_t> first_row_ HP_GUARDED_BY(mutex_);
  Status error_ HP_GUARDED_BY(mutex_);
};

std::string Ready(int64_t piece) { return Format("ready %lld", static_cast<long long>(piece)); }

void ExpectPiece(const BatchReader& reader, int64_t number, const Piece& piece, const RecordOrder& order) {
  const float* images = reader.images(number);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(images) % 64, 0u);
  for (int64_t row = 0; row < piece.rows; ++row) {
    const float record = static_cast<float>(order.Record(piece.first_sample + row));
    for (int i = 0; i < 6; ++i) ASSERT_EQ(images[row * 6 + i], record) << "piece " << number << " row " << row;
  }
}

/// A sample is a record of each source, in that source's order.
TEST(BatchReader, SeveralSources) {
  FakeDataset images(7);
  TwoLabels more(5);
  const auto transformer = PlainTransformer();
  const RecordOrder order(7, false, 1), other_order(5, true, 3);
  SampleLayout layout;
  layout.shape = {transformer->output_shape(), Shape{2, 1}, {transformer->output_shape(), Shape()}};
  layout.labels = {1, 1};
  layout.others = {{1, 0}, {0, 1}};
  const Division division{4, 0, {3, 1}};
  Recorder recorder;
  BatchReader reader({{&images, order, transformer.get()}, {&more, other_order, transformer.get()}}, layout,
                     recorder.Options(division, 2, 3));
  reader.Start(0, 8);
  for (int64_t n = 0; n < 8; ++n) {
    recorder.WaitFor(Ready(n));
    const Piece piece = division.At(n);
    const float* const floats = reader.images(n);
    for (int64_t row = 0; row < piece.rows; ++row) {
      const auto record = static_cast<float>(order.Record(piece.first_sample + row)),
                 other = static_cast<float>(other_order.Record(piece.first_sample + row));
      const float* const labels = floats + 6 * piece.rows + 2 * row;
      for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(floats[6 * row + i], record);
        EXPECT_EQ(floats[layout.shape.OtherAt(0, piece.rows) + 6 * row + i], other);
      }
      EXPECT_EQ(labels[0], other);
      EXPECT_EQ(labels[1], -other);
      EXPECT_EQ(floats[layout.shape.OtherAt(1, piece.rows) + row], record);
      EXPECT_EQ(recorder.labels(piece.batch)[2 * (piece.first_row_in_batch + row)], other);
    }
    EXPECT_EQ(layout.shape.OtherAt(0, piece.rows) % 16, 0);
    reader.Release(n);
  }
}

/// Where one has a bad record, all go on with their next one: what belongs together stays together.
TEST(BatchReader, SourcesSkipBadRecordsTogether) {
  FakeDataset images(6), others(6);
  others.rubbish_ = 2;
  images.rubbish_ = 3;
  const auto transformer = PlainTransformer();
  const RecordOrder order(6, false, 1);
  SampleLayout layout;
  layout.shape = {transformer->output_shape(), {}, {transformer->output_shape()}};
  layout.labels = {0, 1};
  layout.others = {{1, 0}};
  const Division division{6, 0, {6}};
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(division, 1, 1);
  options.max_bad_records = 2;
  BatchReader reader({{&images, order, transformer.get()}, {&others, order, transformer.get()}}, layout, options);
  reader.Start(0, 1);
  recorder.WaitFor(Ready(0));
  const float expected[] = {0, 1, 4, 4, 4, 5};
  for (int row = 0; row < 6; ++row) {
    EXPECT_EQ(reader.images(0)[6 * row], expected[row]);
    EXPECT_EQ(reader.images(0)[layout.shape.OtherAt(0, 6) + 6 * row], expected[row]);
  }
}

/// A record counts once, whichever record of another source it comes with.
TEST(BatchReader, ABadTopCountsAsItsOwnSourcesRecord) {
  TwoLabels labels(3);
  labels.bad_label_ = 1;
  FakeDataset images(2);
  const auto transformer = PlainTransformer();
  SampleLayout layout;
  layout.shape = {transformer->output_shape(), Shape{2, 1}};
  layout.data = {1, 0};
  layout.labels = {0, 1};
  const Division division{6, 0, {6}};
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(division, 1, 1);
  options.max_bad_records = 1;
  BatchReader reader({{&labels, {3, false, 1}, transformer.get()}, {&images, {2, false, 1}, transformer.get()}}, layout,
                     options);
  reader.Start(0, 1);
  recorder.WaitFor(Ready(0));
  const std::vector<float> read = recorder.labels(0);
  const float expected_labels[] = {0, 2, 2, 0, 2, 2}, expected_images[] = {0, 0, 0, 1, 1, 1};
  for (int row = 0; row < 6; ++row) {
    EXPECT_EQ(read[2 * row], expected_labels[row]) << row;
    EXPECT_EQ(reader.images(0)[6 * row], expected_images[row]) << row;
  }
}

/// A piece stays raw if each of its records has bytes; one with floats makes floats of its piece.
TEST(BatchReader, PiecesOfBytesStayRaw) {
  FakeDataset images(7);
  images.floats_ = 3;
  images.width_ = 5;
  const auto transformer = *Transformer::Create({}, true, 1, "data", NoiseDatum(0, 1, 2, 5, 0), "record 0");
  SampleLayout layout;
  layout.shape = {transformer->output_shape()};
  layout.labels = {0, 1};
  ASSERT_TRUE(SampleReader::MayBeRaw(layout));
  const Division division{7, 0, {3, 2, 2}};
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(division, 3, 2);
  options.raw = true;
  BatchReader reader({{&images, {7, false, 1}, transformer.get()}}, layout, options);
  reader.Start(0, 3);
  for (int64_t n = 0; n < 3; ++n) {
    recorder.WaitFor(Ready(n));
    const Piece piece = division.At(n);
    ASSERT_EQ(reader.raw(n), n != 1);
    const float* const floats = reader.images(n);
    const auto* const rows = reinterpret_cast<const RawImage*>(floats);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(rows + piece.rows);
    for (int64_t row = 0; row < piece.rows; ++row) {
      const int64_t record = piece.first_sample + row;
      for (int i = 0; i < 10; ++i) {
        if (n == 1) {
          EXPECT_EQ(floats[row * 10 + i], record == 3 ? 0.5f : static_cast<float>(record));
        } else {
          EXPECT_EQ(bytes[row * 10 + i], record);
        }
      }
      if (n != 1) {
        EXPECT_EQ(rows[row].channels_inside, 0);
      }
    }
    reader.Release(n);
  }
}

TEST(SampleReader, OnlySingleImagesMayBeRaw) {
  SampleLayout layout;
  layout.shape = {3, 4, 5};
  EXPECT_TRUE(SampleReader::MayBeRaw(layout));
  const auto but = [&](const auto& change) {
    SampleLayout changed = layout;
    change(&changed);
    return SampleReader::MayBeRaw(changed);
  };
  EXPECT_FALSE(but([](SampleLayout* l) { l->shape.label = {2, 1}; })) << "their labels lie behind the images";
  EXPECT_FALSE(but([](SampleLayout* l) { l->shape.others = {Shape{2}}; }));
  EXPECT_FALSE(but([](SampleLayout* l) { l->data = {0, 1}; })) << "no record has it";
  EXPECT_FALSE(but([](SampleLayout* l) { l->also_ahead = {{0, 0}}; })) << "their numbers are told";
  EXPECT_FALSE(but([](SampleLayout* l) { l->shape.data = {1, 1, 9}; })) << "would be larger than floats";
  EXPECT_FALSE(but([](SampleLayout* l) { l->shape.data = Shape{60}; }));
}

struct Setting {
  int ring, threads;
};
class BatchReaderTest : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Settings, BatchReaderTest,
                         testing::Values(Setting{1, 1}, Setting{1, 3}, Setting{2, 2}, Setting{5, 1}, Setting{16, 4}),
                         [](const auto& info) {
                           return "ring" + std::to_string(info.param.ring) + "threads" +
                                  std::to_string(info.param.threads);
                         });

/// Records in memory that are given.
class GivenRecords : public FakeDataset {
 public:
  explicit GivenRecords(std::vector<caffe::Datum> records)
      : FakeDataset(static_cast<int64_t>(records.size())), records_(std::move(records)) {}
  Status Read(int64_t record, std::string* bytes) override {
    *bytes = records_[record].SerializeAsString();
    return OkStatus();
  }

 private:
  const std::vector<caffe::Datum> records_;
};

/// 32 x 32 pixels of about one color.
Image FlatImage(int color) {
  Image image{32, 32, 3, std::vector<unsigned char>(32 * 32 * 3, static_cast<unsigned char>(color))};
  image.pixels[100] = 255;
  return image;
}

caffe::Datum EncodedAs(const Image& image, const std::string& extension) {
  caffe::Datum datum;
  datum.set_encoded(true);
  datum.set_data(*EncodeImage(image, extension));
  return datum;
}

/// JPEGs, and among them a PNG, a raw record and a JPEG that ends too early.
std::vector<caffe::Datum> MixedRecords() {
  std::vector<caffe::Datum> records;
  for (int r = 0; r < 8; ++r) records.push_back(EncodedAs(FlatImage(20 * r), r == 2 ? "png" : "jpg"));
  ImageToDatum(FlatImage(60), &records[3]);
  records[5].mutable_data()->pop_back();
  return records;
}

SampleLayout LayoutOf(const Transformer& transformer) {
  SampleLayout layout;
  layout.shape = {transformer.output_shape()};
  layout.labels = {0, 1};
  return layout;
}

/// What can is left encoded, row by row; all other rows of the piece are decoded as ever.
TEST_P(BatchReaderTest, JpegsStayEncodedBesidePixels) {
  const std::vector<caffe::Datum> records = MixedRecords();
  GivenRecords dataset(records);
  const auto transformer = *Transformer::Create({}, true, 1, "data", records[0], "record 0");
  const int64_t values = transformer->output_shape().count();
  for (const bool encoded : {true, false}) {
    const Division division{8, 0, {5, 3}};
    Recorder recorder;
    BatchReaderOptions options = recorder.Options(division, GetParam().ring, GetParam().threads);
    options.raw = true;
    options.encoded = encoded;
    BatchReader reader({{&dataset, {8, false, 1}, transformer.get()}}, LayoutOf(*transformer), options);
    reader.Start(0, 2);
    for (int64_t n = 0; n < 2; ++n) {
      recorder.WaitFor(Ready(n));
      const Piece piece = division.At(n);
      ASSERT_TRUE(reader.raw(n));
      const auto* const images = reinterpret_cast<const RawImage*>(reader.images(n));
      const auto* const bytes = reinterpret_cast<const uint8_t*>(images + piece.rows);
      for (int64_t row = 0; row < piece.rows; ++row) {
        const int64_t record = piece.first_sample + row;
        const bool stays = encoded && record != 2 && record != 3 && record != 5;
        EXPECT_THAT(reader.Describe(n, row), HasSubstr("record " + std::to_string(record)));
        const uint8_t* const slot = bytes + row * values;
        if (stays) {
          ASSERT_EQ(images[row].encoded_bytes, static_cast<int32_t>(records[record].data().size()));
          EXPECT_EQ(std::string(slot, slot + images[row].encoded_bytes), records[record].data());
          continue;
        }
        RawImage expected;
        std::vector<uint8_t> pixels(values);
        ASSERT_TRUE(transformer->TakeRaw(records[record], record, &expected, pixels.data()).ok());
        EXPECT_EQ(images[row].encoded_bytes, 0) << record;
        EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), slot)) << record;
      }
      reader.Release(n);
    }
  }
}

/// Where records may be bad the host decodes each once, to find those; the good ones stay encoded all the same.
TEST_P(BatchReaderTest, JpegsStayEncodedWhereBadRecordsAreLookedFor) {
  std::vector<caffe::Datum> records = MixedRecords();
  const size_t tables = records[1].data().find("\xFF\xC4");
  std::fill_n(records[1].mutable_data()->begin() + tables + 5, 16, '\xFF');  // how many codes there are of each length
  GivenRecords dataset(records);
  const auto transformer = *Transformer::Create({}, true, 1, "data", records[0], "record 0");
  ASSERT_TRUE(transformer->GoesEncoded(records[1])) << "its header is good";
  ASSERT_FALSE(transformer->Check(records[1]).ok());
  for (const int64_t bad : {1, 0}) {
    const Division division{8, 0, {8}};
    Recorder recorder;
    BatchReaderOptions options = recorder.Options(division, GetParam().ring, GetParam().threads);
    options.raw = options.encoded = true;
    options.max_bad_records = bad;
    BatchReader reader({{&dataset, {8, false, 1}, transformer.get()}}, LayoutOf(*transformer), options);
    reader.Start(0, 1);
    recorder.WaitFor(Ready(0));
    const auto* const images = reinterpret_cast<const RawImage*>(reader.images(0));
    EXPECT_EQ(images[0].encoded_bytes, static_cast<int32_t>(records[0].data().size()));
    const int64_t second = bad == 1 ? 2 : 1;  // the next good one stands in for it, or else the device has to find it
    EXPECT_THAT(reader.Describe(0, 1), HasSubstr("record " + std::to_string(second)));
    EXPECT_EQ(images[1].encoded_bytes != 0, bad == 0);
    reader.Release(0);
  }
}

/// In a piece with a record of floats a JPEG would be decoded on the host, in another not: pixels would depend on the
/// table.
TEST(BatchReader, AJpegAmongRecordsOfFloatsIsRefusedWhereJpegsStayEncoded) {
  std::vector<caffe::Datum> records = MixedRecords();
  records[6].Clear();
  records[6].set_channels(3);
  records[6].set_height(32);
  records[6].set_width(32);
  records[6].mutable_float_data()->Resize(3 * 32 * 32, 0.5f);
  GivenRecords dataset(records);
  const auto transformer = *Transformer::Create({}, true, 1, "data", records[0], "record 0");
  for (const bool encoded : {false, true}) {
    Recorder recorder;
    BatchReaderOptions options = recorder.Options({8, 0, {8}}, 1, 1);
    options.raw = true;
    options.encoded = encoded;
    BatchReader reader({{&dataset, {8, false, 1}, transformer.get()}}, LayoutOf(*transformer), options);
    reader.Start(0, 1);
    recorder.WaitFor(encoded ? "error" : Ready(0));
    if (!encoded) continue;
    EXPECT_EQ(recorder.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(recorder.error().message(), HasSubstr("record 0"));
    EXPECT_THAT(recorder.error().message(), HasSubstr("a JPEG among records of floats, which the device can't decode"));
  }
}

/// Images lie where the caller says, for a device that copies from some memory only.
TEST_P(BatchReaderTest, ImagesAreInMemoryOfTheCallers) {
  FakeDataset dataset(20);
  const auto transformer = PlainTransformer();
  const RecordOrder order(20, false, 1);
  const Division division{4, 0, {4}};
  Recorder recorder;
  std::set<const float*> slots;
  BatchReaderOptions options = recorder.Options(division, GetParam().ring, GetParam().threads);
  options.allocate = [&slots](size_t bytes) {
    EXPECT_EQ(bytes, 4 * 6 * sizeof(float));
    Buffer buffer = Buffer::Allocate(bytes).value();
    slots.insert(buffer.floats());
    return buffer;
  };
  BatchReader reader = ReaderOf(&dataset, order, transformer.get(), options);
  EXPECT_EQ(static_cast<int>(slots.size()), GetParam().ring);
  reader.Start(0, 5);
  for (int64_t n = 0; n < 5; ++n) {
    recorder.WaitFor(Ready(n));
    EXPECT_TRUE(slots.contains(reader.images(n))) << n;
    reader.Release(n);
  }
}

/// They go ahead as well.
TEST_P(BatchReaderTest, SeveralLabelsOfARowLieBehindTheImages) {
  TwoLabels dataset(20);
  dataset.broken_ = 8;  // the next one's labels stand in as well
  const auto transformer = PlainTransformer();
  const Division division{6, 1, {3, 1}};
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(division, GetParam().ring, GetParam().threads);
  options.max_bad_records = 1;
  BatchReader reader = ReaderOf(&dataset, {20, false, 1}, transformer.get(), options);
  reader.Start(0, 6);
  for (int64_t n = 0; n < 6; ++n) {
    recorder.WaitFor(Ready(n));
    const Piece piece = division.At(n);
    const std::vector<float> ahead = recorder.labels(piece.batch);
    ASSERT_EQ(ahead.size(), 8u);
    const float* const behind = reader.images(n) + piece.rows * 6;
    for (int64_t row = 0; row < piece.rows; ++row) {
      const int64_t record = piece.first_sample + row == 8 ? 9 : piece.first_sample + row;
      const int64_t at = 2 * (piece.first_row_in_batch - 1 + row);
      EXPECT_EQ(reader.images(n)[row * 6], static_cast<float>(record));
      for (const float* labels : {ahead.data() + at, behind + 2 * row}) {
        EXPECT_EQ(labels[0], static_cast<float>(record));
        EXPECT_EQ(labels[1], -static_cast<float>(record));
      }
    }
    reader.Release(n);
  }
}

/// Whatever is wrong with it; and its labels, which go ahead, are those of the record that is taken.
TEST_P(BatchReaderTest, TheNextGoodRecordStandsInForABadOne) {
  FakeDataset dataset(10);
  dataset.broken_ = 3;
  dataset.odd_ = 4;
  dataset.rubbish_ = 9;
  const auto transformer = PlainTransformer();
  const Division division{10, 0, {4, 6}};
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(division, GetParam().ring, GetParam().threads);
  options.max_bad_records = 3;
  BatchReader reader = ReaderOf(&dataset, {10, false, 1}, transformer.get(), options);
  reader.Start(0, 6);
  const std::vector<float> expected = {0, 1, 2, 5, 5, 5, 6, 7, 8, 0};
  for (int64_t n = 0; n < 6; ++n) {
    recorder.WaitFor(Ready(n));
    const Piece piece = division.At(n);
    EXPECT_EQ(recorder.labels(piece.batch), expected);
    for (int64_t row = 0; row < piece.rows; ++row) {
      EXPECT_EQ(reader.images(n)[6 * row], expected[piece.first_row_in_batch + row]) << n << " " << row;
    }
    reader.Release(n);
  }
  reader.Stop();
  EXPECT_TRUE(recorder.error().ok()) << recorder.error();
}

TEST_P(BatchReaderTest, MoreBadRecordsThanMayBeSkippedAreAnError) {
  FakeDataset dataset(10);
  dataset.broken_ = 3;
  dataset.odd_ = 4;
  dataset.rubbish_ = 9;
  const auto transformer = PlainTransformer();
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(Division{10, 0, {10}}, GetParam().ring, GetParam().threads);
  options.max_bad_records = 2;
  BatchReader reader = ReaderOf(&dataset, {10, false, 1}, transformer.get(), options);
  reader.Start(0, 2);
  recorder.WaitFor("error");
  reader.Stop();
  EXPECT_THAT(recorder.error().message(), testing::EndsWith("; 2 other bad record(s) were skipped, no more may be"));
  EXPECT_THAT(recorder.error().code(), testing::AnyOf(StatusCode::kDataLoss, StatusCode::kInvalidArgument));
  if (GetParam().threads > 1) return;  // whichever is read last
  EXPECT_EQ(recorder.error().code(), StatusCode::kDataLoss);
  EXPECT_THAT(recorder.error().message(),
              testing::StartsWith("record 9 (key \"some-key\") of fake.db is not a valid Datum (3 bytes);"));
}

TEST(BatchReader, WhereAllRecordsAreBadThereIsAnEnd) {
  FakeDataset dataset(2);
  dataset.broken_ = 0;
  dataset.rubbish_ = 1;
  const auto transformer = PlainTransformer();
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(Division{2, 0, {2}}, 1, 1);
  options.max_bad_records = 100;
  BatchReader reader = ReaderOf(&dataset, {2, false, 1}, transformer.get(), options);
  reader.Start(0, 1);
  recorder.WaitFor("error");
  reader.Stop();
  EXPECT_THAT(recorder.error().message(), HasSubstr("is not a valid Datum"));
}

TEST_P(BatchReaderTest, SaysThatThereIsNoMemoryForImages) {
  FakeDataset dataset(20);
  const auto transformer = PlainTransformer();
  Recorder recorder;
  BatchReaderOptions options = recorder.Options(Division{4, 0, {4}}, GetParam().ring, GetParam().threads);
  options.allocate = [](size_t) { return ResourceExhausted("none left"); };
  EXPECT_EQ(ReaderOf(&dataset, {20, false, 1}, transformer.get(), options).allocated().message(), "none left");
  options.allocate = nullptr;
  EXPECT_TRUE(ReaderOf(&dataset, {20, false, 1}, transformer.get(), options).allocated().ok());
}

TEST_P(BatchReaderTest, PiecesComeInOrderWithTheirRowsAfterTheirLabels) {
  FakeDataset dataset(100);
  const auto transformer = PlainTransformer();
  const RecordOrder order(100, true, 11);
  const Division division{20, 4, {3, 2, 3}};
  Recorder recorder;
  BatchReader reader =
      ReaderOf(&dataset, order, transformer.get(), recorder.Options(division, GetParam().ring, GetParam().threads));
  const int64_t end = 30;
  reader.Start(0, end);
  for (int64_t n = 0; n < end; ++n) {
    recorder.WaitFor(Ready(n));
    ExpectPiece(reader, n, division.At(n), order);
    reader.Release(n);
  }
  reader.Stop();
  std::vector<std::string> ready, labels;
  std::set<int64_t> labelled;
  for (const std::string& event : recorder.events()) {
    if (event.starts_with("ready")) {
      EXPECT_TRUE(labelled.contains(std::stoll(event.substr(6)) / 3)) << event << " before its labels";
      ready.push_back(event);
    } else {
      labels.push_back(event);
      labelled.insert(std::stoll(event.substr(7)));
    }
  }
  ASSERT_EQ(ready.size(), 30u);
  ASSERT_EQ(labels.size(), 10u);
  for (int64_t n = 0; n < end; ++n) EXPECT_EQ(ready[n], Ready(n));
  for (int64_t batch = 0; batch < 10; ++batch) {
    EXPECT_EQ(labels[batch], Format("labels %lld", static_cast<long long>(batch)));
    EXPECT_EQ(recorder.first_row(batch), 4);
    std::vector<float> expected;
    for (int row = 0; row < 8; ++row) expected.push_back(static_cast<float>(order.Record(batch * 20 + 4 + row)));
    EXPECT_EQ(recorder.labels(batch), expected);
  }
  EXPECT_EQ(dataset.reads().size(), 80u);
  EXPECT_TRUE(recorder.error().ok());
}

TEST_P(BatchReaderTest, PiecesMayBeReleasedInAnyOrder) {
  FakeDataset dataset(50);
  const auto transformer = PlainTransformer();
  const RecordOrder order(50, false, 0);
  const Division division{8, 0, {2, 2, 2, 2}};
  Recorder recorder;
  BatchReader reader =
      ReaderOf(&dataset, order, transformer.get(), recorder.Options(division, GetParam().ring, GetParam().threads));
  reader.Start(0, 40);
  // As many as are ready at once for sure, the newest first.
  const int64_t window = std::min(GetParam().ring, 4);
  for (int64_t n = 0; n < 40; n += window) {
    for (int64_t i = n + window - 1; i >= n; --i) {
      if (i >= 40) continue;
      recorder.WaitFor(Ready(i));
      ExpectPiece(reader, i, division.At(i), order);
      reader.Release(i);
    }
  }
}

TEST_P(BatchReaderTest, StartsAgainFromAnyPieceAndStopsUnderWay) {
  FakeDataset dataset(64);
  const auto transformer = PlainTransformer();
  const RecordOrder order(64, true, 2);
  const Division division{4, 0, {2, 2}};
  Recorder recorder;
  BatchReader reader =
      ReaderOf(&dataset, order, transformer.get(), recorder.Options(division, GetParam().ring, GetParam().threads));
  for (const int64_t first : {0, 0, 7, 1000}) {
    recorder.Clear();
    reader.Start(first, first + 100);
    for (int64_t n = first; n < first + 3; ++n) {
      recorder.WaitFor(Ready(n));
      ExpectPiece(reader, n, division.At(n), order);
      if (n < first + 2) reader.Release(n);  // the last is still in use when the reader stops
    }
    reader.Stop();
  }
  reader.Start(0, 0);  // nothing to do
  reader.Stop();
}

TEST(BatchReader, ResumedInTheMiddleOfABatchItTellsTheRestOfTheLabels) {
  FakeDataset dataset(64);
  const auto transformer = PlainTransformer();
  const Division division{6, 0, {2, 2, 2}};
  Recorder recorder;
  BatchReader reader =
      ReaderOf(&dataset, RecordOrder(64, false, 0), transformer.get(), recorder.Options(division, 4, 1));
  reader.Start(4, 6);
  recorder.WaitFor(Ready(5));
  EXPECT_EQ(recorder.labels(1), (std::vector<float>{8, 9, 10, 11}));
  EXPECT_EQ(recorder.first_row(1), 2);
}

/// As it is with one micro-batch: the rows of a piece are shared out, and their labels and images lie as ever.
TEST(BatchReader, AllThreadsReadTheRowsOfOnePiece) {
  const Division division{9, 0, {9}};
  MeetingPlace dataset(20, 4);
  const auto transformer = PlainTransformer();
  const RecordOrder order(20, false, 1);
  Recorder recorder;
  BatchReader reader = ReaderOf(&dataset, order, transformer.get(), recorder.Options(division, 1, 4));
  reader.Start(0, 3);
  for (int64_t piece = 0; piece < 3; ++piece) {
    recorder.WaitFor(Ready(piece));
    ExpectPiece(reader, piece, division.At(piece), order);
    ASSERT_EQ(recorder.labels(piece).size(), 9u);
    for (int64_t row = 0; row < 9; ++row) EXPECT_EQ(recorder.labels(piece)[row], order.Record(piece * 9 + row));
    reader.Release(piece);
  }
}

// With every buffer taken, the records of the next batch are read all the same, and of no further one.
TEST(BatchReader, ReadsOneBatchAheadAndNoFurther) {
  FakeDataset dataset(1000);
  const auto transformer = PlainTransformer();
  const Division division{4, 0, {2, 2}};
  Recorder recorder;
  BatchReader reader =
      ReaderOf(&dataset, RecordOrder(1000, false, 0), transformer.get(), recorder.Options(division, 1, 1));
  reader.Start(0, 100);
  recorder.WaitFor("ready 0");
  recorder.WaitFor("labels 1");
  EXPECT_EQ(recorder.events(), (std::vector<std::string>{"labels 0", "ready 0", "labels 1"}));
  reader.Release(0);
  recorder.WaitFor("ready 1");
  EXPECT_EQ(dataset.reads().size(), 8u);
  reader.Release(1);
  recorder.WaitFor("labels 2");
  recorder.WaitFor("ready 2");
  EXPECT_EQ(dataset.reads().size(), 12u);
}

TEST(BatchReader, ReadsAsManyBatchesAheadAsItIsTold) {
  FakeDataset dataset(1000);
  const auto transformer = PlainTransformer();
  Recorder recorder;
  auto options = recorder.Options({4, 0, {4}}, 1, 2);
  options.batches_ahead = 3;
  BatchReader reader = ReaderOf(&dataset, RecordOrder(1000, false, 0), transformer.get(), options);
  reader.Start(0, 100);
  recorder.WaitFor("labels 3");
  recorder.WaitFor("ready 0");
  EXPECT_EQ(dataset.reads().size(), 16u);
}

TEST(BatchReader, CallbacksMayRelease) {
  FakeDataset dataset(100);
  const auto transformer = PlainTransformer();
  Recorder recorder;
  auto options = recorder.Options({4, 0, {1, 3}}, 1, 2);
  BatchReader* self = nullptr;
  const auto tell = options.on_ready;
  options.on_ready = [&](int64_t piece) {
    self->Release(piece);
    tell(piece);
  };
  BatchReader reader = ReaderOf(&dataset, RecordOrder(100, false, 0), transformer.get(), options);
  self = &reader;
  reader.Start(0, 50);
  recorder.WaitFor("ready 49");
}

Status ErrorOf(FakeDataset* dataset, int threads) {
  const auto transformer = PlainTransformer();
  Recorder recorder;
  BatchReader reader = ReaderOf(dataset, RecordOrder(dataset->size(), false, 0), transformer.get(),
                                recorder.Options({4, 0, {2, 2}}, 2, threads));
  reader.Start(0, 1000);
  recorder.WaitFor("error");
  reader.Stop();
  const auto events = recorder.events();
  EXPECT_EQ(std::count(events.begin(), events.end(), "error"), 1);
  EXPECT_EQ(events.back(), "error");
  return recorder.error();
}

TEST(BatchReader, ErrorsNameTheRecordOnce) {
  for (const int threads : {1, 3}) {
    FakeDataset broken(100), odd(100), rubbish(100);
    broken.broken_ = 3;
    EXPECT_EQ(ErrorOf(&broken, threads).message(), "fake.db is broken");
    rubbish.rubbish_ = 2;
    EXPECT_EQ(ErrorOf(&rubbish, threads).message(),
              "record 2 (key \"some-key\") of fake.db is not a valid Datum (3 bytes)");
    odd.odd_ = 1;
    const Status status = ErrorOf(&odd, threads);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("record 1 (key \"some-key\") of fake.db"));
    EXPECT_THAT(status.message(), HasSubstr("has the shape 1 2 4, expected 1 2 3"));
  }
}

TEST(BatchReader, ReadsARealDatabase) {
  TempFolder folder;
  Records records;
  for (int i = 0; i < 40; ++i) {
    records.emplace_back(Format("%05d", i), NoiseDatum(i, 3, 8, 8, i % 10).SerializeAsString());
  }
  WriteRecords(folder / "db", DbBackend::kLevelDb, records);
  DatasetOptions dataset_options;
  dataset_options.cache_dir = "none";
  auto dataset = Dataset::Open(folder / "db", DbBackend::kLevelDb, dataset_options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  TransformOptions transform;
  transform.crop_size = 5;
  transform.mirror = true;
  const auto transformer =
      Transformer::Create(transform, true, 3, "data", NoiseDatum(0, 3, 8, 8, 0), (*dataset)->Describe(0));
  ASSERT_TRUE(transformer.ok()) << transformer.status();
  const RecordOrder order(40, true, 3);
  const Division whole{10, 0, {10}}, part{10, 4, {3, 3}};
  Recorder recorder, part_recorder;
  BatchReader reader = ReaderOf(dataset->get(), order, transformer->get(), recorder.Options(whole, 2, 2));
  BatchReader part_reader = ReaderOf(dataset->get(), order, transformer->get(), part_recorder.Options(part, 1, 1));
  reader.Start(0, 12);
  part_reader.Start(0, 24);
  // The same samples are the same bits for a node that reads only some of them.
  for (int64_t batch = 0; batch < 12; ++batch) {
    recorder.WaitFor(Ready(batch));
    const std::vector<float> all(reader.images(batch), reader.images(batch) + 10 * 75);
    reader.Release(batch);
    for (int64_t n = 2 * batch; n < 2 * batch + 2; ++n) {
      part_recorder.WaitFor(Ready(n));
      const int64_t row = part.At(n).first_row_in_batch;
      EXPECT_TRUE(std::equal(part_reader.images(n), part_reader.images(n) + 3 * 75, all.begin() + row * 75));
      part_reader.Release(n);
    }
  }
}

}  // namespace
}  // namespace hp
