// JPEGs among raw images that the device decodes: a fake GPU by libjpeg, to the bit, and a real one by nvJPEG, whose
// pixels may differ a little.
#include "data/image.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"
#include "test/support/fake_gpu.h"
#include "test/unit/cuda/gpu_under_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace hp::test {
namespace {

using testing::HasSubstr;

constexpr int64_t kCrop = 40;
/// Of nvJPEG's pixels from libjpeg's, for images without sharp edges: both are within rounding of the same transform,
/// and interpolate chroma of half the samples in their own ways.
constexpr int kMostLevels = 16;
constexpr double kMeanLevels = 1;

caffe::Datum EncodedImage(const Image& image, const std::string& extension) {
  caffe::Datum datum;
  datum.set_encoded(true);
  datum.set_data(*EncodeImage(image, extension));
  return datum;
}

Image Waves(int seed, int height, int width) {
  Image image{height, width, 3, {}};
  for (int i = 0; i < height * width * 3; ++i) {
    const int c = i % 3, x = i / 3 % width, y = i / 3 / width;
    image.pixels.push_back(
        static_cast<unsigned char>(128 + 90 * std::sin(0.05 * x + 0.03 * y * (seed % 5) + c + seed)));
  }
  return image;
}

/// Of different sizes; every third one is no JPEG.
std::vector<caffe::Datum> SomeRecords(int64_t rows, bool jpegs_alone = false) {
  std::vector<caffe::Datum> records;
  for (int r = 0; r < static_cast<int>(rows); ++r) {
    const Image image = Waves(r, 44 + r % 7, 60 - r % 11);
    records.push_back(EncodedImage(image, r % 3 == 2 && !jpegs_alone ? "png" : "jpg"));
  }
  return records;
}

std::unique_ptr<Transformer> CroppingTransformer() {
  TransformOptions options;
  options.crop_size = kCrop;
  options.mirror = true;
  return *Transformer::Create(std::move(options), true, 1, "data", SomeRecords(1)[0], "record 0");
}

/// Raw images in memory that a device copies from, and what a host makes of the same records.
struct RawBlock {
  RawBlock(Device* device, const Transformer& transformer, const std::vector<caffe::Datum>& records)
      : rule(transformer.rule()), rows(static_cast<int64_t>(records.size())) {
    bytes = device->AllocateHost(RawImagesBytes(rows, rule.values())).value();
    expected.resize(rows * rule.values());
    for (int64_t row = 0; row < rows; ++row) {
      RawImage ignored;
      EXPECT_TRUE(transformer.TakeRaw(records[row], row, &ignored, expected.data() + row * rule.values()).ok());
      uint8_t* const slot = reinterpret_cast<uint8_t*>(images() + rows) + row * rule.values();
      if (transformer.TakeEncoded(records[row], row, images() + row, slot)) continue;
      EXPECT_TRUE(transformer.TakeRaw(records[row], row, images() + row, slot).ok());
    }
  }
  RawImage* images() const { return reinterpret_cast<RawImage*>(bytes.data()); }

  const RawImageRule rule;
  const int64_t rows;
  Buffer bytes;
  std::vector<uint8_t> expected;  // [rows] crops
};

class JpegImagesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto decoder = UnderTest().backend->ImageDecoder(64, transformer_->whole_bytes());
    if (!decoder.ok()) GTEST_SKIP() << decoder.status();
    decoder_ = *std::move(decoder);
  }

  /// What the device makes of the block: the crops of all rows.
  std::vector<uint8_t> Decode(const RawBlock& block) {
    Device* const device = UnderTest().device.get();
    const size_t bytes = block.bytes.bytes();
    const Buffer raw = device->Allocate(bytes).value(), back = device->AllocateHost(bytes).value();
    device->Upload(Device::kCopyIn, raw.data(), block.bytes.data(), bytes);
    decoder_->Decode(block.rule, block.rows, block.bytes.data(), raw.data(), [](int64_t) { return ""; });
    device->Download(Device::kCopyIn, back.data(), raw.data(), bytes);
    const Status status = device->Synchronize();
    EXPECT_TRUE(status.ok()) << status;
    const auto* const images = reinterpret_cast<const RawImage*>(back.data());
    for (int64_t row = 0; row < block.rows; ++row) {
      EXPECT_EQ(images[row].top, block.images()[row].top);
      EXPECT_EQ(images[row].channels_inside, 1);
    }
    const auto* const pixels = reinterpret_cast<const uint8_t*>(images + block.rows);
    return {pixels, pixels + block.rows * block.rule.values()};
  }

  const std::unique_ptr<Transformer> transformer_ = CroppingTransformer();
  std::unique_ptr<RawImageDecoder> decoder_;
};

TEST_F(JpegImagesTest, CropsOfJpegsStandBesideThoseThatTheHostDecoded) {
  for (const int64_t rows : {1, 2, 3, 17, 64}) {
    const RawBlock block(UnderTest().device.get(), *transformer_, SomeRecords(rows));
    const std::vector<uint8_t> made = Decode(block);
    const int64_t values = block.rule.values();
    for (int64_t row = 0; row < rows; ++row) {
      const bool encoded = block.images()[row].encoded_bytes != 0;
      EXPECT_EQ(encoded, row % 3 != 2);
      const bool exact = !encoded || UnderTest().waits;
      int most = 0;
      double sum = 0;
      for (int64_t i = row * values; i < (row + 1) * values; ++i) {
        const int levels = std::abs(made[i] - block.expected[i]);
        most = std::max(most, levels);
        sum += levels;
      }
      EXPECT_LE(most, exact ? 0 : kMostLevels) << "row " << row << " of " << rows;
      EXPECT_LE(sum / static_cast<double>(values), exact ? 0 : kMeanLevels) << "row " << row << " of " << rows;
    }
  }
}

/// A table may divide a batch in any way: a record's pixels must not depend on the others of its micro-batch, and be
/// the same each time.
TEST_F(JpegImagesTest, PixelsDependOnTheRecordAlone) {
  const std::vector<caffe::Datum> records = SomeRecords(64, true);
  const std::vector<uint8_t> together = Decode({UnderTest().device.get(), *transformer_, records});
  EXPECT_EQ(Decode({UnderTest().device.get(), *transformer_, records}), together);
  std::vector<uint8_t> in_pieces;
  for (size_t begin = 0, count = 1; begin < records.size(); begin += count, count = 2 * count) {
    const size_t end = std::min(records.size(), begin + count);
    // Rows choose the crops, so those in front are decoded again.
    const std::vector<caffe::Datum> some(records.begin(), records.begin() + static_cast<int64_t>(end));
    const std::vector<uint8_t> made = Decode({UnderTest().device.get(), *transformer_, some});
    const auto values = static_cast<size_t>(transformer_->output_shape().count());
    in_pieces.insert(in_pieces.end(), made.begin() + static_cast<int64_t>(begin * values), made.end());
  }
  EXPECT_EQ(in_pieces, together);
}

/// All JPEGs of a micro-batch are one batch and one copy of their crops; without any there is nothing to do.
TEST_F(JpegImagesTest, TakeOneBatchAndOneCopyOfAllCrops) {
  const auto* const gpu = dynamic_cast<FakeGpu*>(UnderTest().device.get());
  if (gpu == nullptr) GTEST_SKIP() << "no fake GPU, which counts";
  const auto launches = [&](const std::vector<caffe::Datum>& records) {
    const RawBlock block(UnderTest().device.get(), *transformer_, records);
    const int before = gpu->launches();
    Decode(block);
    return gpu->launches() - before;
  };
  EXPECT_EQ(launches(SomeRecords(64)), 2);
  EXPECT_EQ(launches(SomeRecords(1)), 2);
  EXPECT_EQ(launches({SomeRecords(3)[2]}), 0);
}

/// The device fails, and says what of: the name of the row, whose number the caller turns into a sample and a record.
TEST(JpegImages, WhatCannotBeDecodedIsNamed) {
  BackendUnderTest fresh = NewGpuUnderTest();
  const auto transformer = CroppingTransformer();
  auto decoder = fresh.backend->ImageDecoder(8, transformer->whole_bytes());
  if (!decoder.ok()) GTEST_SKIP() << decoder.status();
  std::vector<caffe::Datum> records = SomeRecords(8);
  const size_t tables = records[4].data().find("\xFF\xC4");
  std::fill_n(records[4].mutable_data()->begin() + static_cast<int64_t>(tables) + 5, 16, '\xFF');
  {
    RawBlock good(fresh.device.get(), *transformer, SomeRecords(8));
    uint8_t* const slot = reinterpret_cast<uint8_t*>(good.images() + 8) + 4 * good.rule.values();
    ASSERT_TRUE(transformer->TakeEncoded(records[4], 4, good.images() + 4, slot));
    const Buffer raw = fresh.device->Allocate(good.bytes.bytes()).value();
    fresh.device->Upload(Device::kCopyIn, raw.data(), good.bytes.data(), good.bytes.bytes());
    (*decoder)->Decode(good.rule, 8, good.bytes.data(), raw.data(),
                       [](int64_t row) { return "row " + std::to_string(row); });
    const Status status = fresh.device->Synchronize();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("row 4: "));
  }
  decoder->reset();
}

}  // namespace
}  // namespace hp::test
