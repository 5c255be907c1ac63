#include "data/image_list.h"

#include "data/image.h"
#include "data/image_list_dataset.h"
#include "data/record_source.h"
#include "data/transformer.h"

#include "data_test_util.h"
#include <gmock/gmock.h>

#include <algorithm>

namespace hp {
namespace {

using testing::HasSubstr;

std::string ParseError(const std::string& text) { return ParseImageList(text, "list").status().message(); }

TEST(ParseImageList, TheLabelFollowsTheLastBlank) {
  const auto images = ParseImageList("a.jpg 3\n\n b c/d .png\t-17 \r\n  \nlast 2147483647", "list");
  ASSERT_TRUE(images.ok()) << images.status();
  ASSERT_EQ(images->size(), 3u);
  const std::vector<ListedImage> expected = {{"a.jpg", 3, 1}, {" b c/d .png", -17, 3}, {"last", 2147483647, 5}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*images)[i].name, expected[i].name);
    EXPECT_EQ((*images)[i].label, expected[i].label);
    EXPECT_EQ((*images)[i].line, expected[i].line);
  }
}

TEST(ParseImageList, LabelsMayBeWrittenAsFloats) {
  const auto images = ParseImageList("a 3.0\nb -1.\nc 7.00", "list");
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ((*images)[0].label, 3);
  EXPECT_EQ((*images)[1].label, -1);
  EXPECT_EQ((*images)[2].label, 7);
}

TEST(ParseImageList, WrongLinesAreNamed) {
  EXPECT_EQ(ParseError("a 1\nb\n"), "list:2: \"b\": expected the name of an image and a label, like \"cat/1.jpg 3\"");
  for (const char* line : {"a 1.5", "a 1.0x", "a 1.0.0", "a 0x1", "a 2147483648", "a cat", " 3", "a +1", "a --1"}) {
    EXPECT_THAT(ParseError(std::string("a 1\n\n") + line), HasSubstr("list:3: ")) << line;
  }
  EXPECT_THAT(ParseError("\x1b[2J 1x"), HasSubstr("\"\\x1b[2J 1x\"")) << "as it may stand on a terminal";
  EXPECT_EQ(ParseError(" \n\n"), "list of images list has no lines");
}

class ImageListTest : public testing::Test {
 protected:
  ImageListTest() {
    std::filesystem::create_directory(folder_ / "img");
    layer_.set_name("data");
    layer_.set_type("ImageData");
  }

  // A noisy one of 3 channels.
  void WriteImage(const std::string& name, int height, int width, uint64_t seed = 1) {
    const std::string noise = NoiseBytes(seed, 3 * height * width);
    WriteWholeFile(folder_ / ("img/" + name), *EncodeImage({height, width, 3, {noise.begin(), noise.end()}}, "png"));
  }
  StatusOr<std::unique_ptr<Dataset>> Open(const std::string& list) {
    WriteWholeFile(folder_ / "list.txt", list);
    layer_.mutable_image_data_param()->set_source(folder_ / "list.txt");
    layer_.mutable_image_data_param()->set_root_folder(folder_ / "img/");
    return OpenDatasetOf(layer_, {});
  }
  // The first record as the layer makes it, then another one.
  Status TransformBoth(Dataset* dataset, std::vector<float>* out) {
    caffe::Datum first, second;
    HP_RETURN_IF_ERROR(dataset->ReadDatum(0, &first));
    HP_RETURN_IF_ERROR(dataset->ReadDatum(1, &second));
    HP_ASSIGN_OR_RETURN(TransformOptions options, TransformOptionsOf(layer_));
    HP_ASSIGN_OR_RETURN(const auto transformer,
                        Transformer::Create(std::move(options), true, 1, "data", first, dataset->Describe(0)));
    shape_ = transformer->output_shape();
    out->resize(2 * shape_.count());
    HP_RETURN_IF_ERROR(transformer->Transform(first, 0, out->data()));
    return transformer->Transform(second, 1, out->data() + shape_.count()).Prepend(dataset->Describe(1));
  }

  TempFolder folder_;
  caffe::LayerParameter layer_;
  Shape shape_;
};

TEST_F(ImageListTest, RecordsAreTheFilesInTheOrderOfTheList) {
  WriteImage("b c.png", 4, 5, 1);
  WriteImage("a.png", 4, 5, 2);
  auto dataset = Open("b c.png 7\n\na.png -1\nb c.png 2\n");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 3);
  EXPECT_EQ((*dataset)->key(0), "b c.png");
  EXPECT_EQ((*dataset)->Describe(1), (folder_ / "list.txt") + ":3: " + (folder_ / "img/a.png"));
  const std::vector<std::pair<std::string, int>> expected = {{"b c.png", 7}, {"a.png", -1}, {"b c.png", 2}};
  for (int64_t record : {2, 0, 1}) {
    caffe::Datum datum;
    ASSERT_TRUE((*dataset)->ReadDatum(record, &datum).ok());
    std::ifstream file(folder_ / ("img/" + expected[record].first), std::ios::binary);
    EXPECT_EQ(datum.data(), std::string(std::istreambuf_iterator<char>(file), {}));
    EXPECT_TRUE(datum.encoded());
    EXPECT_EQ(datum.label(), expected[record].second);
  }
}

TEST_F(ImageListTest, PixelsAreThoseThatTheConverterStores) {
  WriteImage("a.png", 9, 12, 1);
  WriteImage("b.png", 20, 7, 2);
  for (const bool color : {true, false}) {
    layer_.mutable_image_data_param()->set_new_height(6);
    layer_.mutable_image_data_param()->set_new_width(8);
    layer_.mutable_image_data_param()->set_is_color(color);
    auto dataset = Open("a.png 0\nb.png 1\n");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    std::vector<float> images;
    ASSERT_TRUE(TransformBoth(dataset->get(), &images).ok());
    ASSERT_EQ(shape_, Shape({color ? 3 : 1, 6, 8}));
    for (const char* name : {"a.png", "b.png"}) {
      const auto image =
          ReadImageFile(folder_ / (std::string("img/") + name), color ? ImageColor::kColor : ImageColor::kGray, 6, 8);
      caffe::Datum datum;
      ImageToDatum(*image, &datum);
      const float* const found = images.data() + (name[0] == 'a' ? 0 : shape_.count());
      for (int64_t i = 0; i < shape_.count(); ++i) {
        ASSERT_EQ(found[i], static_cast<float>(static_cast<unsigned char>(datum.data()[i]))) << name << " " << i;
      }
    }
  }
}

TEST_F(ImageListTest, ImagesOfDifferentSizesNeedOneOrACrop) {
  WriteImage("a.png", 6, 8);
  WriteImage("b.png", 6, 9);
  auto dataset = Open("a.png 0\nb.png 1\n");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<float> images;
  EXPECT_EQ(TransformBoth(dataset->get(), &images).message(),
            (folder_ / "list.txt") + ":2: " + (folder_ / "img/b.png") +
                ": has the shape 3 6 9, expected 3 6 8; images of different sizes need new_height and new_width, or a "
                "crop_size");
  layer_.mutable_transform_param()->set_crop_size(5);
  EXPECT_TRUE(TransformBoth(dataset->get(), &images).ok());
  EXPECT_EQ(shape_, Shape({3, 5, 5}));
}

TEST_F(ImageListTest, WhatCannotBeReadIsNamedWithItsLine) {
  WriteImage("a.png", 2, 2);
  const auto error = [this](const std::string& list) { return Open(list).status(); };
  EXPECT_EQ(error("a.png 0\n\nb.png 1\n").message(),
            (folder_ / "list.txt") + ":3: " + (folder_ / "img/b.png") + ": no such file");
  EXPECT_EQ(error("a.png 0\nb.png 1\n").code(), StatusCode::kNotFound);
  std::filesystem::create_directory(folder_ / "img/c");
  EXPECT_THAT(error("c 0\n").message(), HasSubstr("img/c: is a folder, expected a file"));
  EXPECT_THAT(error("a.png\n").message(), HasSubstr("list.txt:1: \"a.png\": expected"));
  layer_.mutable_image_data_param()->set_source(folder_ / "img");
  DatasetOptions options;
  options.hint = "layer \"data\"";
  EXPECT_THAT(OpenDatasetOf(layer_, options).status().message(),
              testing::MatchesRegex("layer \"data\": list of images: .*/img: is a folder, expected a file"));
  layer_.mutable_image_data_param()->set_source("none.txt");
  EXPECT_EQ(OpenDatasetOf(layer_, {}).status().code(), StatusCode::kNotFound);
  // An image that the fingerprint does not need is missed when its turn comes.
  std::string list;
  for (int i = 0; i < 100; ++i) list += i == 1 ? "late.png 0\n" : "a.png 0\n";
  auto dataset = Open(list);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  caffe::Datum datum;
  EXPECT_THAT((*dataset)->ReadDatum(1, &datum).message(), HasSubstr("list.txt:2: "));
}

TEST_F(ImageListTest, TheFingerprintIsOfTheListAndSomeImages) {
  WriteImage("a.png", 2, 2, 1);
  std::string list;
  for (int i = 0; i < 100; ++i) list += "a.png 1\n";
  const auto fingerprint = [this](const std::string& text) { return (*Open(text))->Fingerprint(); };
  const uint64_t expected = fingerprint(list);
  EXPECT_EQ(fingerprint(list + "\n"), expected);
  std::string other = list;
  other[8 * 1 + 6] = '2';  // a record whose image the fingerprint does not read
  EXPECT_NE(fingerprint(other), expected);
  EXPECT_NE(fingerprint(list + "a.png 1\n"), expected);
  WriteImage("a.png", 2, 2, 2);
  EXPECT_NE(fingerprint(list), expected);
}

TEST_F(ImageListTest, OrderIsThatOfTheLayer) {
  caffe::ImageDataParameter& images = *layer_.mutable_image_data_param();
  EXPECT_EQ(RecordOrderOf(layer_, 100, 3, true).Record(5), 5);
  images.set_shuffle(true);
  const RecordOrder shuffled(100, true, 3);
  for (int64_t s = 0; s < 200; ++s) ASSERT_EQ(RecordOrderOf(layer_, 100, 3, false).Record(s), shuffled.Record(s));
  images.set_rand_skip(50);
  EXPECT_EQ(RecordOrderOf(layer_, 100, 3, true).skip(), RecordOrder(100, true, 3, 50).skip());
  EXPECT_EQ(RecordOrderOf(layer_, 100, 3, false).skip(), 0);
}

TEST_F(ImageListTest, ALayerOfAnotherTypeDoesNotReadIt) {
  layer_.set_type("Data");
  layer_.mutable_image_data_param()->set_source(folder_ / "list.txt");
  layer_.mutable_image_data_param()->set_shuffle(true);
  layer_.mutable_image_data_param()->set_is_color(false);
  layer_.mutable_hdf5_data_param()->set_source("list.txt");
  layer_.mutable_data_param()->set_source("no.db");
  WriteWholeFile(folder_ / "list.txt", "");
  EXPECT_THAT(OpenDatasetOf(layer_, {}).status().message(), HasSubstr("no.db"));
  for (int64_t s = 0; s < 20; ++s) EXPECT_EQ(RecordOrderOf(layer_, 100, 3, true).Record(s), s);
  EXPECT_FALSE(TransformOptionsOf(layer_)->force_gray);
}

TEST_F(ImageListTest, SizesThatNoImageHasAreRefused) {
  caffe::ImageDataParameter& images = *layer_.mutable_image_data_param();
  images.set_new_height(5);
  EXPECT_EQ(TransformOptionsOf(layer_).status().message(),
            "layer \"data\": new_height 5 and new_width 0: expected both or neither, and at most 134217728 pixels");
  images.set_new_width(100000000);
  EXPECT_FALSE(TransformOptionsOf(layer_).ok());
  images.set_new_width(10000000);
  EXPECT_TRUE(TransformOptionsOf(layer_).ok());
}

}  // namespace
}  // namespace hp
