#include "data/image.h"

#include "data/image_exif.h"
#include "data/image_header.h"

#include "data_test_util.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace hp {
namespace {

using testing::HasSubstr;

Image Noise(int height, int width, int channels) {
  const std::string bytes = NoiseBytes(height * 1000 + width, static_cast<size_t>(height) * width * channels);
  return {height, width, channels, std::vector<unsigned char>(bytes.begin(), bytes.end())};
}

TEST(Image, PngKeepsEveryPixel) {
  for (const int channels : {1, 3, 4}) {
    const Image image = Noise(5, 7, channels);
    const auto png = EncodeImage(image, "png");
    ASSERT_TRUE(png.ok()) << png.status();
    const auto decoded = DecodeImage(*png, ImageColor::kAsStored);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->channels, channels);
    EXPECT_EQ(decoded->height, 5);
    EXPECT_EQ(decoded->width, 7);
    EXPECT_EQ(decoded->pixels, image.pixels);
  }
}

TEST(Image, ColorAndGrayAreForced) {
  const auto color = EncodeImage(Noise(4, 4, 3), "png"), gray = EncodeImage(Noise(4, 4, 1), "png");
  EXPECT_EQ(DecodeImage(*color, ImageColor::kGray)->channels, 1);
  EXPECT_EQ(DecodeImage(*gray, ImageColor::kColor)->channels, 3);
}

TEST(Image, DatumIsPlanar) {
  Image image{1, 2, 3, {10, 20, 30, 11, 21, 31}};
  caffe::Datum datum;
  datum.set_label(9);
  datum.set_encoded(true);
  ImageToDatum(image, &datum);
  EXPECT_EQ(datum.data(), std::string({10, 11, 20, 21, 30, 31}));
  EXPECT_EQ(datum.channels(), 3);
  EXPECT_EQ(datum.height(), 1);
  EXPECT_EQ(datum.width(), 2);
  EXPECT_EQ(datum.label(), 9);
  EXPECT_FALSE(datum.encoded());
}

TEST(Image, DamagedImagesAreErrors) {
  EXPECT_EQ(DecodeImage("", ImageColor::kAsStored).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeImage(NoiseBytes(1, 1000), ImageColor::kAsStored).status().code(), StatusCode::kDataLoss);
  const auto png = EncodeImage(Noise(20, 20, 3), "png");
  EXPECT_EQ(DecodeImage(png->substr(0, 20), ImageColor::kAsStored).status().code(), StatusCode::kDataLoss);
}

// What OpenCV does with each kind of image and damage is compared in images_in_opencv.py.
TEST(Image, MessagesAreTheLibrariesOwn) {
  std::string png = *EncodeImage(Noise(20, 20, 3), "png");
  png[45] ^= 1;  // in the pixels
  const auto wrong = DecodeImage(png, ImageColor::kColor);
  EXPECT_EQ(wrong.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(wrong.status().message(), HasSubstr("cannot decode the image: IDAT: "));
  const auto cut = DecodeImage(png.substr(0, 40), ImageColor::kColor);
  EXPECT_THAT(cut.status().message(), HasSubstr("premature end"));
  const std::string jpeg = *EncodeImage(Noise(20, 20, 3), "jpg");
  const auto no_frame = DecodeImage(jpeg.substr(0, 30), ImageColor::kColor);
  EXPECT_EQ(no_frame.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(no_frame.status().message(), HasSubstr("cannot decode the image: "));
}

TEST(Image, ATruncatedJpegIsDecodedAsFarAsItGoes) {
  const std::string jpeg = *EncodeImage(Noise(64, 16, 3), "jpg");
  const auto whole = DecodeImage(jpeg, ImageColor::kColor);
  const auto cut = DecodeImage(jpeg.substr(0, jpeg.size() * 3 / 4), ImageColor::kColor);
  ASSERT_TRUE(cut.ok()) << cut.status();
  const auto last_row = cut->pixels.end() - 16 * 3;
  EXPECT_TRUE(std::equal(cut->pixels.begin(), cut->pixels.begin() + 16 * 3, whole->pixels.begin()));
  EXPECT_FALSE(std::equal(last_row, cut->pixels.end(), whole->pixels.end() - 16 * 3));
}

TEST(Image, OtherFormatsAreNamed) {
  using std::string_literals::operator""s;
  for (const auto& [bytes, name] : std::map<std::string, std::string>{{"BM6\0\0\0"s, "BMP"},
                                                                      {"GIF89a", "GIF"},
                                                                      {"II*\0\x08\0\0\0"s, "TIFF"},
                                                                      {"RIFF\x24\0\0\0WEBPVP8 "s, "WebP"},
                                                                      {"P6\n3 2\n255\n", "PNM"}}) {
    const Status status = DecodeImage(bytes, ImageColor::kAsStored).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("is a " + name + " image; expected JPEG or PNG (convert it"));
  }
  for (const std::string bytes : {"no image", "B", "RIFF", "P6"}) {
    const Status status = DecodeImage(bytes, ImageColor::kAsStored).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("not a JPEG or PNG image")) << bytes;
  }
}

TEST(Image, UprightImages) {
  const Image image{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  const std::vector<std::vector<unsigned char>> expected = {
      {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
      {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}, {1, 2, 3, 4, 5, 6}};
  for (int orientation = 0; orientation < 10; ++orientation) {
    const Image upright = TurnUpright(image, orientation);
    EXPECT_EQ(upright.pixels, expected[orientation]) << orientation;
    EXPECT_EQ(upright.width, orientation >= 5 && orientation <= 8 ? 2 : 3) << orientation;
    EXPECT_EQ(upright.height, 6 / upright.width);
  }
}

TEST(Image, ExifNotesTheOrientation) {
  using std::string_literals::operator""s;
  const std::string little = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s;
  const std::string big = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"s;
  EXPECT_EQ(ExifOrientation(little), 6);
  EXPECT_EQ(ExifOrientation(big), 6);
  for (size_t bytes = 0; bytes < 20; ++bytes) EXPECT_FALSE(ExifOrientation(little.substr(0, bytes))) << bytes;
  EXPECT_FALSE(ExifOrientation("II*\0\xFF\xFF\xFF\xFF"s));
}

TEST(Image, HeadersSayHowManyPixelsThereAre) {
  for (const char* format : {"png", "jpg"}) {
    const auto encoded = EncodeImage(Noise(20, 30, 3), format);
    EXPECT_EQ(DeclaredPixels(*encoded), 600) << format;
    for (size_t bytes = 0; bytes < encoded->size(); ++bytes) {
      const auto pixels = DeclaredPixels(encoded->substr(0, bytes));
      EXPECT_TRUE(!pixels || *pixels == 600) << format << ", " << bytes;
    }
  }
  EXPECT_FALSE(DeclaredPixels("P5 30 20 255"));
}

TEST(Image, APngIsAsLongAsItsChunksSay) {
  const std::string png = *EncodeImage(Noise(20, 30, 3), "png");
  EXPECT_TRUE(PngChunksFit(png));
  EXPECT_TRUE(PngChunksFit(png + "what follows"));
  for (size_t bytes = 0; bytes < png.size(); ++bytes) EXPECT_FALSE(PngChunksFit(png.substr(0, bytes))) << bytes;
  for (const char length : {1, 127, -1}) {
    std::string longer = png;
    longer[33] = length;  // of the chunk behind the header, big-endian
    EXPECT_FALSE(PngChunksFit(longer));
    EXPECT_EQ(DecodeImage(longer, ImageColor::kColor).status().code(), StatusCode::kDataLoss);
  }
}

TEST(Image, AHeaderThatSaysABillionPixelsCostsNothing) {
  std::string png = *EncodeImage(Noise(20, 30, 3), "png"), jpeg = *EncodeImage(Noise(20, 30, 3), "jpg");
  png[18] = png[22] = 127;  // width and height, big-endian from bytes 16 and 20
  const size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg[frame + 5] = jpeg[frame + 7] = 127;
  for (const std::string& bytes : {png, jpeg}) {
    const Status status = DecodeImage(bytes, ImageColor::kAsStored).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("at most 134217728 are decoded"));
  }
}

TEST(Image, FilesAreReadAndResized) {
  TempFolder folder;
  const Image image = Noise(6, 9, 3);
  WriteWholeFile(folder / "a.png", *EncodeImage(image, "png"));
  EXPECT_EQ(ReadImageFile(folder / "a.png", ImageColor::kColor, 0, 0)->pixels, image.pixels);
  const auto resized = ReadImageFile(folder / "a.png", ImageColor::kGray, 3, 4);
  ASSERT_TRUE(resized.ok()) << resized.status();
  EXPECT_EQ(resized->height, 3);
  EXPECT_EQ(resized->width, 4);
  EXPECT_EQ(resized->channels, 1);
  const auto missing = ReadImageFile(folder / "b.png", ImageColor::kColor, 0, 0);
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr(folder / "b.png"));
  WriteWholeFile(folder / "c.png", "no image");
  const auto damaged = ReadImageFile(folder / "c.png", ImageColor::kColor, 0, 0);
  EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(damaged.status().message(), HasSubstr(folder / "c.png"));
}

// The libraries' frames are C's, and no exception can pass them.
TEST(ImageDeathTest, MemoryForTheBytesThatCannotBeHadIsAStatus) {
#ifdef HP_SANITIZED
  GTEST_SKIP() << "a sanitizer's shadow is larger than any limit of the address space";
#endif
  const Image image = Noise(3000, 3000, 3);
  const auto run = [&image](const char* format) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit = {static_cast<rlim_t>(pages * 4096 + (12 << 20)), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    const auto bytes = EncodeImage(image, format);
    std::fputs(bytes.status().message().c_str(), stderr);
    _exit(bytes.status().code() == StatusCode::kResourceExhausted ? 7 : 0);
  };
  for (const char* format : {"png", "jpg"}) {
    EXPECT_EXIT(run(format), testing::ExitedWithCode(7), "out of memory: encoding an image") << format;
  }
}

TEST(Image, UnknownFormatsCannotBeWritten) {
  const Status status = EncodeImage(Noise(2, 2, 1), "xyz").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("\"jpg\", \"jpeg\" and \"png\""));
  EXPECT_EQ(EncodeImage(Noise(2, 2, 2), "png").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeImage({0, 0, 3, {}}, "png").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeImage({0, 0, 3, {}}, "jpg").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeImage(Noise(2, 2, 3), "jpeg")->substr(0, 2), "\xFF\xD8");
}

// The pixels of every part are those of the whole image.
TEST(Image, PartsOfJpegs) {
  const TempFolder folder;
  ASSERT_EQ(std::system((std::string(WRITE_TEST_JPEGS) + " " + folder.path()).c_str()), 0);
  int parts = 0, smaller = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    for (const ImageColor color : {ImageColor::kAsStored, ImageColor::kColor, ImageColor::kGray}) {
      const auto whole = DecodeImage(bytes, color);
      if (!whole.ok()) continue;  // two channels
      for (int top = 0; top < whole->height; top += 7) {
        for (int left = 0; left < whole->width; left += 5) {
          const int height = std::min(1 + top / 2, whole->height - top), width = std::min(9, whole->width - left);
          const auto part = DecodeImagePart(bytes, color, [&](int, int) {
            return ImagePart{top, left, height, width};
          });
          ASSERT_TRUE(part.ok()) << part.status();
          ASSERT_EQ(part->height, whole->height);
          ASSERT_EQ(part->width, whole->width);
          ++parts;
          smaller += part->image.pixels.size() < whole->pixels.size();
          const size_t row_bytes = static_cast<size_t>(width) * whole->channels;
          for (int row = 0; row < height; ++row) {
            const auto at = [&](const Image& image, int y, int x) {
              return image.pixels.begin() + (static_cast<int64_t>(y) * image.width + x) * image.channels;
            };
            const auto expected = at(*whole, top + row, left);
            ASSERT_TRUE(
                std::equal(expected, expected + row_bytes, at(part->image, top + row - part->top, left - part->left)))
                << file.path() << ", row " << top + row << " from column " << left;
          }
        }
      }
    }
  }
  EXPECT_GT(parts, 4000);
  EXPECT_GT(smaller, parts / 2);
}

}  // namespace
}  // namespace hp
