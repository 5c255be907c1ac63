#include "data/transformer.h"

#include "data/image.h"

#include "data_test_util.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace hp {
namespace {

using testing::HasSubstr;

constexpr int kChannels = 3, kHeight = 9, kWidth = 11;

std::unique_ptr<Transformer> Make(TransformOptions options, bool train, const caffe::Datum& first, uint64_t seed = 1,
                                  const std::string& layer = "data") {
  auto transformer = Transformer::Create(std::move(options), train, seed, layer, first, "record 0");
  EXPECT_TRUE(transformer.ok()) << transformer.status();
  return *std::move(transformer);
}

std::vector<float> Apply(const Transformer& transformer, const caffe::Datum& datum, uint64_t sample) {
  std::vector<float> out(transformer.output_shape().count(), NAN);
  const Status status = transformer.Transform(datum, sample, out.data());
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

// Caffe's formula, element by element, from the raw bytes.
std::vector<float> Reference(const caffe::Datum& datum, const TransformOptions& options, int top, int left,
                             bool mirror) {
  const int height = options.crop_size > 0 ? options.crop_size : datum.height();
  const int width = options.crop_size > 0 ? options.crop_size : datum.width();
  std::vector<float> out;
  for (int c = 0; c < datum.channels(); ++c) {
    for (int h = 0; h < height; ++h) {
      for (int w = 0; w < width; ++w) {
        const int column = left + (mirror ? width - 1 - w : w);
        const int index = (c * datum.height() + top + h) * datum.width() + column;
        const float pixel = datum.data().empty() ? datum.float_data(index)
                                                 : static_cast<float>(static_cast<unsigned char>(datum.data()[index]));
        float mean = 0;
        if (!options.mean.data.empty()) mean = options.mean.data[index];
        if (options.mean_value.size() == 1) mean = options.mean_value[0];
        if (options.mean_value.size() > 1) mean = options.mean_value[c];
        out.push_back((pixel - mean) * options.scale);
      }
    }
  }
  return out;
}

// Which crop and mirror the transformer took: found by trying all.
struct Taken {
  int top, left;
  bool mirror;
  auto operator<=>(const Taken&) const = default;
};
std::optional<Taken> FindTaken(const std::vector<float>& out, const caffe::Datum& datum,
                               const TransformOptions& options) {
  const int spare_h = options.crop_size > 0 ? datum.height() - options.crop_size : 0;
  const int spare_w = options.crop_size > 0 ? datum.width() - options.crop_size : 0;
  for (int top = 0; top <= spare_h; ++top) {
    for (int left = 0; left <= spare_w; ++left) {
      for (const bool mirror : {false, true}) {
        if (Reference(datum, options, top, left, mirror) == out) return Taken{top, left, mirror};
      }
    }
  }
  return std::nullopt;
}

caffe::Datum SomeDatum(uint64_t seed = 5) { return NoiseDatum(seed, kChannels, kHeight, kWidth, 2); }

MeanImage SomeMean() {
  MeanImage mean;
  mean.shape = Shape({kChannels, kHeight, kWidth});
  for (int i = 0; i < kChannels * kHeight * kWidth; ++i) mean.data.push_back(100 + 0.25f * static_cast<float>(i));
  mean.fingerprint = 1;
  return mean;
}

TEST(Transformer, PlainImagesAreConvertedExactly) {
  const caffe::Datum datum = SomeDatum();
  const TransformOptions options;
  const auto transformer = Make(options, true, datum);
  EXPECT_EQ(transformer->output_shape(), Shape({kChannels, kHeight, kWidth}));
  EXPECT_EQ(Apply(*transformer, datum, 3), Reference(datum, options, 0, 0, false));
}

TEST(Transformer, ScaleAndMeans) {
  const caffe::Datum datum = SomeDatum();
  for (int kind = 0; kind < 3; ++kind) {
    TransformOptions options;
    options.scale = 0.017f;
    if (kind == 0) options.mean = SomeMean();
    if (kind == 1) options.mean_value = {104};
    if (kind == 2) options.mean_value = {104, 117, 123};
    EXPECT_EQ(Apply(*Make(options, true, datum), datum, 0), Reference(datum, options, 0, 0, false)) << kind;
  }
}

TEST(Transformer, FloatDataTakeTheSameWay) {
  caffe::Datum datum = SomeDatum();
  for (const char c : datum.data()) datum.add_float_data(static_cast<unsigned char>(c) / 7.0f);
  datum.clear_data();
  TransformOptions options;
  options.mean = SomeMean();
  options.crop_size = 4;
  const auto out = Apply(*Make(options, false, datum), datum, 0);
  EXPECT_EQ(out, Reference(datum, options, (kHeight - 4) / 2, (kWidth - 4) / 2, false));
}

TEST(Transformer, TestsCropTheCentre) {
  const caffe::Datum datum = SomeDatum();
  TransformOptions options;
  options.crop_size = 6;
  options.mean = SomeMean();
  const auto transformer = Make(options, false, datum);
  EXPECT_EQ(transformer->output_shape(), Shape({kChannels, 6, 6}));
  for (uint64_t sample = 0; sample < 5; ++sample) {
    EXPECT_EQ(Apply(*transformer, datum, sample), Reference(datum, options, 1, 2, false));
  }
}

TEST(Transformer, TrainingCropsAndMirrorsAtRandomAndReachesEverything) {
  const caffe::Datum datum = SomeDatum();
  TransformOptions options;
  options.crop_size = 7;
  options.mirror = true;
  options.mean = SomeMean();
  options.scale = 0.5f;
  const auto transformer = Make(options, true, datum);
  std::map<Taken, int> taken;
  const int samples = 3000, places = (kHeight - 6) * (kWidth - 6) * 2;
  for (int sample = 0; sample < samples; ++sample) {
    const auto found = FindTaken(Apply(*transformer, datum, sample), datum, options);
    ASSERT_TRUE(found) << "sample " << sample << " is no crop of the image";
    ++taken[*found];
  }
  EXPECT_EQ(taken.size(), static_cast<size_t>(places));
  for (const auto& [place, count] : taken) {
    EXPECT_NEAR(count, samples / places, 40) << place.top << " " << place.left << " " << place.mirror;
  }
}

TEST(Transformer, MirrorIsRandomInTestsTooAsInCaffe) {
  const caffe::Datum datum = SomeDatum();
  TransformOptions options;
  options.mirror = true;
  const auto transformer = Make(options, false, datum);
  int mirrored = 0;
  for (uint64_t sample = 0; sample < 400; ++sample) {
    const auto found = FindTaken(Apply(*transformer, datum, sample), datum, options);
    ASSERT_TRUE(found);
    mirrored += found->mirror;
  }
  EXPECT_NEAR(mirrored, 200, 60);
}

TEST(Transformer, RandomNumbersDependOnSeedLayerAndSampleAlone) {
  const caffe::Datum datum = SomeDatum();
  TransformOptions options;
  options.crop_size = 3;
  options.mirror = true;
  const auto sequence = [&](uint64_t seed, const std::string& layer, uint64_t first) {
    std::vector<std::vector<float>> outputs;
    const auto transformer = Make(options, true, datum, seed, layer);
    for (uint64_t sample = first; sample < first + 20; ++sample) outputs.push_back(Apply(*transformer, datum, sample));
    return outputs;
  };
  EXPECT_EQ(sequence(1, "data", 0), sequence(1, "data", 0));
  EXPECT_NE(sequence(1, "data", 0), sequence(2, "data", 0));
  EXPECT_NE(sequence(1, "data", 0), sequence(1, "other", 0));
  EXPECT_EQ(sequence(1, "data", 0)[10], sequence(1, "data", 10)[0]);
}

/// The same image as a PNG.
caffe::Datum Encoded(const caffe::Datum& raw) {
  Image image{kHeight, kWidth, kChannels, {}};
  for (int i = 0; i < kHeight * kWidth; ++i) {
    for (int c = 0; c < kChannels; ++c) {
      image.pixels.push_back(static_cast<unsigned char>(raw.data()[c * kHeight * kWidth + i]));
    }
  }
  caffe::Datum encoded;
  encoded.set_encoded(true);
  encoded.set_data(*EncodeImage(image, "png"));
  return encoded;
}

/// What a device makes of the raw image.
std::vector<float> MadeOfRaw(const Transformer& transformer, const caffe::Datum& datum, uint64_t sample) {
  const RawImageRule rule = transformer.rule();
  RawImage image;
  std::vector<uint8_t> bytes(rule.values());
  const Status status = transformer.TakeRaw(datum, sample, &image, bytes.data());
  EXPECT_TRUE(status.ok()) << status;
  std::vector<float> made;
  for (uint32_t c = 0; c < rule.channels; ++c) {
    for (uint32_t h = 0; h < rule.height; ++h) {
      for (uint32_t w = 0; w < rule.width; ++w) made.push_back(rule.ValueOf(image, bytes.data(), c, h, w));
    }
  }
  return made;
}

/// It has the bits that the transformer makes itself.
TEST(Transformer, RawImagesBecomeTheSameByTheRule) {
  const caffe::Datum raw = SomeDatum();
  for (const caffe::Datum& datum : {raw, Encoded(raw)}) {
    EXPECT_TRUE(Transformer::HasBytes(datum));
    for (int kind = 0; kind < 4; ++kind) {
      TransformOptions options;
      options.crop_size = kind == 0 ? 0 : 5;
      options.mirror = kind != 0;
      options.scale = 0.3f;
      if (kind == 1) options.mean = SomeMean();
      if (kind == 2) options.mean_value = {104.5f};
      if (kind == 3) options.mean_value = {104, 117, 123};
      const auto transformer = Make(options, true, raw);
      for (uint64_t sample = 0; sample < 10; ++sample) {
        EXPECT_EQ(MadeOfRaw(*transformer, datum, sample), Apply(*transformer, datum, sample)) << kind << " " << sample;
      }
    }
  }
  caffe::Datum floats = raw;
  floats.clear_data();
  floats.add_float_data(1);
  EXPECT_FALSE(Transformer::HasBytes(floats));
}

/// Of a JPEG only the blocks of the crop are decoded, which then begin elsewhere than the image.
TEST(Transformer, RawCropsOfJpegsBecomeTheSameByTheRule) {
  Image image{96, 80, 3, {}};
  for (const char byte : NoiseBytes(3, 96 * 80 * 3)) image.pixels.push_back(static_cast<unsigned char>(byte));
  caffe::Datum datum;
  datum.set_encoded(true);
  datum.set_data(*EncodeImage(image, "jpg"));
  TransformOptions options;
  options.crop_size = 9;
  options.mirror = true;
  options.mean_value = {104, 117, 123};
  const auto transformer = Make(options, true, datum);
  for (uint64_t sample = 0; sample < 20; ++sample) {
    EXPECT_EQ(MadeOfRaw(*transformer, datum, sample), Apply(*transformer, datum, sample)) << sample;
  }
}

/// A JPEG of waves with some noise on them, small for its size.
caffe::Datum WavesJpeg(int height, int width, int noise = 1) {
  Image image{height, width, 3, {}};
  const std::string bytes = NoiseBytes(7, static_cast<size_t>(height) * width * 3);
  for (int i = 0; i < height * width * 3; ++i) {
    const double wave = 100 + 60 * std::sin(0.1 * (i / 3 % width) + 0.07 * (i / 3 / width) + i % 3);
    image.pixels.push_back(static_cast<unsigned char>(wave + static_cast<unsigned char>(bytes[i]) % noise));
  }
  caffe::Datum datum;
  datum.set_encoded(true);
  datum.set_data(*EncodeImage(image, "jpg"));
  return datum;
}

TransformOptions CropsOf(int64_t size) {
  TransformOptions options;
  options.crop_size = size;
  options.mirror = true;
  return options;
}

/// It says which crop of the JPEG stands for the sample: that which TakeRaw would have taken.
TEST(Transformer, APlainJpegCanStayEncoded) {
  const caffe::Datum datum = WavesJpeg(40, 36);
  const auto transformer = Make(CropsOf(28), true, datum);
  const auto values = static_cast<size_t>(transformer->output_shape().count());
  ASSERT_LT(datum.data().size(), values);
  EXPECT_TRUE(transformer->GoesEncoded(datum));
  const Image whole = *DecodeImage(datum.data(), ImageColor::kColor);
  std::set<int> tops, mirrored;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    RawImage encoded, raw;
    std::vector<uint8_t> bytes(values, 77), pixels(values);
    ASSERT_TRUE(transformer->TakeEncoded(datum, sample, &encoded, bytes.data()));
    ASSERT_TRUE(transformer->TakeRaw(datum, sample, &raw, pixels.data()).ok());
    EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + encoded.encoded_bytes), datum.data());
    EXPECT_EQ(bytes[encoded.encoded_bytes], 77);
    EXPECT_EQ(raw.encoded_bytes, 0);
    EXPECT_EQ(encoded.whole_height, 40);
    EXPECT_EQ(encoded.whole_width, 36);
    EXPECT_EQ(encoded.channels_inside, 1);
    EXPECT_EQ(encoded.mirrored, raw.mirrored);
    EXPECT_EQ(encoded.top, raw.top);
    EXPECT_EQ(encoded.left, raw.left);
    for (int h = 0; h < 28; ++h) {
      const auto* const row = whole.pixels.data() + ((encoded.top + h) * 36 + encoded.left) * 3;
      ASSERT_TRUE(std::equal(row, row + 28 * 3, pixels.data() + h * 28 * 3)) << sample;
    }
    tops.insert(encoded.top);
    mirrored.insert(encoded.mirrored);
  }
  EXPECT_GT(tops.size(), 3u);
  EXPECT_EQ(mirrored.size(), 2u);
}

/// What stays encoded follows from the record and the net alone.
TEST(Transformer, OnlyWhatFitsStaysEncoded) {
  const caffe::Datum datum = WavesJpeg(40, 36);
  const auto made = [&](TransformOptions options) { return Make(std::move(options), true, datum); };
  const auto bytes = static_cast<int64_t>(datum.data().size());
  EXPECT_TRUE(made({})->GoesEncoded(datum)) << "whole images";

  int64_t crop = 1;
  while (3 * crop * crop < bytes) ++crop;
  ASSERT_LT(crop, 36);
  EXPECT_TRUE(made(CropsOf(crop))->GoesEncoded(datum));
  EXPECT_FALSE(made(CropsOf(crop - 1))->GoesEncoded(datum)) << "its bytes do not fit in place of the crop";
  const caffe::Datum noisy = WavesJpeg(40, 36, 90);
  ASSERT_GT(static_cast<int64_t>(noisy.data().size()), 3 * 25 * 25);
  EXPECT_TRUE(made(CropsOf(25))->GoesEncoded(datum));
  EXPECT_FALSE(made(CropsOf(25))->GoesEncoded(noisy));

  const auto free = made(CropsOf(28));
  EXPECT_TRUE(free->GoesEncoded(WavesJpeg(28, 28)));
  EXPECT_FALSE(free->GoesEncoded(WavesJpeg(27, 40))) << "smaller than the crop";
  EXPECT_EQ(free->whole_bytes(), 8 * 28 * 28 * 3);
  const auto wide = Make(CropsOf(64), true, WavesJpeg(64, 64));
  EXPECT_TRUE(wide->GoesEncoded(WavesJpeg(64, 512)));
  EXPECT_FALSE(wide->GoesEncoded(WavesJpeg(65, 512))) << "more than 8 crops";

  TransformOptions options = CropsOf(28);
  options.mean.shape = {3, 40, 36};
  options.mean.data.resize(3 * 40 * 36);
  EXPECT_TRUE(made(options)->GoesEncoded(datum));
  EXPECT_EQ(made(options)->whole_bytes(), 3 * 40 * 36);
  EXPECT_FALSE(made(options)->GoesEncoded(WavesJpeg(41, 36))) << "another size than the mean image's";
  RawImage image;
  EXPECT_FALSE(made(options)->TakeEncoded(WavesJpeg(41, 36), 0, &image, nullptr)) << "and nothing is written";
}

TEST(Transformer, WhatIsNoPlainColorJpegIsDecodedOnTheHost) {
  const caffe::Datum datum = WavesJpeg(40, 36);
  const auto transformer = Make(CropsOf(28), true, datum);
  caffe::Datum other = datum;
  other.mutable_data()->pop_back();
  EXPECT_FALSE(transformer->GoesEncoded(other)) << "cut";
  EXPECT_FALSE(Make(CropsOf(5), true, Encoded(SomeDatum()))->GoesEncoded(Encoded(SomeDatum()))) << "a PNG";
  other = datum;
  other.set_encoded(false);
  EXPECT_FALSE(transformer->GoesEncoded(other)) << "bytes that only look like one";
  TransformOptions options = CropsOf(28);
  options.force_color = true;
  EXPECT_TRUE(Make(options, true, datum)->GoesEncoded(datum));
  options.force_color = false;
  options.force_gray = true;
  EXPECT_FALSE(Make(options, true, datum)->GoesEncoded(datum));
  EXPECT_EQ(Make(options, true, datum)->whole_bytes(), 0);
  options.force_gray = false;
  options.resize_height = options.resize_width = 30;
  EXPECT_FALSE(Make(options, true, datum)->GoesEncoded(datum));
  EXPECT_EQ(Make(options, true, datum)->whole_bytes(), 0);
}

TEST(Transformer, EncodedImagesEqualRawOnes) {
  const caffe::Datum raw = SomeDatum(), encoded = Encoded(raw);
  TransformOptions options;
  options.crop_size = 5;
  options.mirror = true;
  options.mean = SomeMean();
  const auto transformer = Make(options, true, raw);
  for (uint64_t sample = 0; sample < 10; ++sample) {
    EXPECT_EQ(Apply(*transformer, encoded, sample), Apply(*transformer, raw, sample));
  }
}

TEST(Transformer, JpegIsDecodedToWithinItsLosses) {
  Image image{32, 32, 3, std::vector<unsigned char>(32 * 32 * 3)};
  for (int i = 0; i < 32 * 32; ++i) {
    image.pixels[3 * i] = static_cast<unsigned char>(4 * (i % 32));
    image.pixels[3 * i + 1] = static_cast<unsigned char>(4 * (i / 32));
    image.pixels[3 * i + 2] = 128;
  }
  caffe::Datum datum;
  datum.set_encoded(true);
  datum.set_data(*EncodeImage(image, "jpg"));
  const auto out = Apply(*Make({}, false, datum), datum, 0);
  for (int i = 0; i < 32 * 32; ++i) {
    for (int c = 0; c < 3; ++c) ASSERT_NEAR(out[c * 32 * 32 + i], image.pixels[3 * i + c], 12) << i << " " << c;
  }
}

TEST(Transformer, ForceGrayAndColorDecideTheChannels) {
  caffe::Datum datum;
  datum.set_encoded(true);
  datum.set_data(*EncodeImage(Image{2, 2, 3, std::vector<unsigned char>(12, 7)}, "png"));
  TransformOptions options;
  options.force_gray = true;
  EXPECT_EQ(Make(options, true, datum)->output_shape(), Shape({1, 2, 2}));
  datum.set_data(*EncodeImage(Image{2, 2, 1, std::vector<unsigned char>(4, 7)}, "png"));
  options = {};
  options.force_color = true;
  EXPECT_EQ(Make(options, true, datum)->output_shape(), Shape({3, 2, 2}));
}

TEST(Transformer, CropsTakeImagesOfDifferentSizes) {
  TransformOptions options;
  options.crop_size = 4;
  const auto transformer = Make(options, false, SomeDatum());
  const caffe::Datum other = NoiseDatum(8, kChannels, 20, 4, 0);
  EXPECT_EQ(Apply(*transformer, other, 0), Reference(other, options, 8, 0, false));
}

Status TransformStatus(const Transformer& transformer, const caffe::Datum& datum) {
  std::vector<float> out(transformer.output_shape().count());
  return transformer.Transform(datum, 0, out.data());
}

TEST(Transformer, WrongShapesSayFoundAndExpected) {
  TransformOptions options;
  const auto plain = Make(options, true, SomeDatum());
  Status status = TransformStatus(*plain, NoiseDatum(1, 3, 9, 12, 0));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "has the shape 3 9 12, expected 3 9 11");
  EXPECT_FALSE(TransformStatus(*plain, NoiseDatum(1, 1, 9, 11, 0)).ok());
  options.crop_size = 5;
  status = TransformStatus(*Make(options, true, SomeDatum()), NoiseDatum(1, 3, 4, 30, 0));
  EXPECT_EQ(status.message(), "has the shape 3 4 30, expected 3 5 5 or larger");
  options.mean = SomeMean();
  status = TransformStatus(*Make(options, true, SomeDatum()), NoiseDatum(1, 3, 20, 20, 0));
  EXPECT_EQ(status.message(), "has the shape 3 20 20, expected 3 9 11");
}

TEST(Transformer, GrayAmongColourNeedsAField) {
  caffe::LayerParameter layer;
  layer.set_type("Data");
  for (const char* const said : {"has the shape 1 9 11, expected 3 9 11; encoded images, some gray and some in colour, "
                                 "need force_color or force_gray",
                                 "has the shape 1 9 11, expected 3 9 11"}) {
    const auto options = TransformOptionsOf(layer);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(TransformStatus(*Make(*options, true, SomeDatum()), NoiseDatum(1, 1, 9, 11, 0)).message(), said);
    layer.mutable_transform_param()->set_force_color(true);  // it can't be what is missing
  }
}

TEST(Transformer, ContradictoryRecordsAreDataLoss) {
  const auto transformer = Make({}, true, SomeDatum());
  caffe::Datum datum = SomeDatum();
  datum.mutable_data()->pop_back();
  EXPECT_EQ(TransformStatus(*transformer, datum).message(), "has the shape 3 9 11 and 296 bytes");
  datum.clear_data();
  EXPECT_EQ(TransformStatus(*transformer, datum).code(), StatusCode::kDataLoss);
  datum = SomeDatum();
  datum.set_height(-9);
  datum.set_width(-11);
  EXPECT_EQ(TransformStatus(*transformer, datum).code(), StatusCode::kDataLoss);
  datum.set_height(2000000000);
  datum.set_width(2000000000);
  EXPECT_EQ(TransformStatus(*transformer, datum).code(), StatusCode::kDataLoss);
  datum.set_encoded(true);
  EXPECT_EQ(TransformStatus(*transformer, datum).code(), StatusCode::kDataLoss);
}

TEST(Transformer, OptionsThatDoNotFitTheFirstRecordAreRefused) {
  const auto refusal = [](const TransformOptions& options) {
    return Transformer::Create(options, true, 1, "data", SomeDatum(), "record 0 of db").status().message();
  };
  TransformOptions options;
  options.crop_size = 10;
  EXPECT_EQ(refusal(options), "crop_size 10 is larger than record 0 of db, which has the shape 3 9 11");
  options = {};
  options.mean_value = {1, 2};
  EXPECT_EQ(refusal(options), "2 mean_value entries, but record 0 of db has 3 channel(s); expected 1 or 3");
  caffe::Datum gray;
  gray.set_channels(1);
  gray.set_height(2);
  gray.set_width(2);
  gray.set_data("1234");
  EXPECT_EQ(Transformer::Create(options, true, 1, "data", gray, "record 0 of db").status().message(),
            "2 mean_value entries, but record 0 of db has 1 channel(s); expected 1");
  options = {};
  options.mean = SomeMean();
  options.mean.shape = Shape({3, 11, 9});
  EXPECT_EQ(refusal(options), "mean_file has the shape 3 11 9, but record 0 of db has 3 9 11");
}

TEST(MeanFile, NewAndOldFormsAreRead) {
  TempFolder folder;
  caffe::BlobProto blob;
  for (const int dim : {1, 2, 1, 3}) blob.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 6; ++i) blob.add_data(static_cast<float>(i));
  WriteWholeFile(folder / "new", blob.SerializeAsString());
  blob.clear_shape();
  blob.set_num(1);
  blob.set_channels(2);
  blob.set_height(1);
  blob.set_width(3);
  WriteWholeFile(folder / "old", blob.SerializeAsString());
  const auto modern = ReadMeanFile(folder / "new"), old = ReadMeanFile(folder / "old");
  ASSERT_TRUE(modern.ok() && old.ok()) << modern.status() << old.status();
  EXPECT_EQ(modern->shape, Shape({2, 1, 3}));
  EXPECT_EQ(modern->data, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(old->shape, modern->shape);
  EXPECT_EQ(old->fingerprint, modern->fingerprint);
  blob.set_data(3, 9);
  WriteWholeFile(folder / "other", blob.SerializeAsString());
  EXPECT_NE(ReadMeanFile(folder / "other")->fingerprint, modern->fingerprint);
}

TEST(MeanFile, BadFilesAreNamed) {
  TempFolder folder;
  EXPECT_EQ(ReadMeanFile(folder / "none").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ReadMeanFile(folder / "none").status().message(), HasSubstr(folder / "none"));
  caffe::BlobProto blob;
  for (const int dim : {2, 2, 3}) blob.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 11; ++i) blob.add_data(1);
  WriteWholeFile(folder / "short", blob.SerializeAsString());
  EXPECT_THAT(ReadMeanFile(folder / "short").status().message(), HasSubstr("has the shape 2 2 3 and 11 values"));
  caffe::BlobProto negative;
  for (const int64_t dim : {-1, -1, 4}) negative.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 4; ++i) negative.add_data(1);
  WriteWholeFile(folder / "negative", negative.SerializeAsString());
  EXPECT_THAT(ReadMeanFile(folder / "negative").status().message(), HasSubstr("has the shape -1 -1 4 and 4 values"));
  const std::string whole = blob.SerializeAsString();
  WriteWholeFile(folder / "cut", whole.substr(0, whole.size() - 5));
  EXPECT_EQ(ReadMeanFile(folder / "cut").status().code(), StatusCode::kDataLoss);
  WriteWholeFile(folder / "empty", "");
  EXPECT_EQ(ReadMeanFile(folder / "empty").status().code(), StatusCode::kDataLoss);
}

TEST(TransformOptionsOf, ReadsTransformParamAlone) {
  caffe::LayerParameter layer;
  layer.set_name("cifar");
  layer.mutable_transform_param()->set_scale(0.5f);
  layer.mutable_transform_param()->set_mirror(true);
  layer.mutable_data_param()->set_crop_size(27);
  layer.mutable_data_param()->set_scale(9);
  layer.mutable_data_param()->set_mean_file("/no/mean.binaryproto");
  auto options = TransformOptionsOf(layer);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->scale, 0.5f);
  EXPECT_TRUE(options->mirror);
  EXPECT_EQ(options->crop_size, 0) << "Caffe ignores it in data_param";

  layer.mutable_transform_param()->set_mean_file("/no/mean.binaryproto");
  EXPECT_THAT(TransformOptionsOf(layer).status().message(), HasSubstr("layer \"cifar\": mean_file: /no/mean"));
  layer.mutable_transform_param()->add_mean_value(1);
  EXPECT_THAT(TransformOptionsOf(layer).status().message(), HasSubstr("mean_file and mean_value"));
  layer.mutable_transform_param()->clear_mean_file();
  layer.mutable_transform_param()->set_force_gray(true);
  layer.mutable_transform_param()->set_force_color(true);
  EXPECT_THAT(TransformOptionsOf(layer).status().message(), HasSubstr("force_color and force_gray"));
}

}  // namespace
}  // namespace hp
