#include "data/plain_jpeg.h"

#include "data/image.h"

#include "data_test_util.h"
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace hp {
namespace {

using std::string_literals::operator""s;

constexpr size_t kStart = 2;  // of the segments

/// 20 x 30 pixels of three channels, 4:2:0.
std::string Jpeg() {
  const std::string noise = NoiseBytes(1, 20 * 30 * 3);
  return *EncodeImage({20, 30, 3, {noise.begin(), noise.end()}}, "jpg");
}

bool IsPlain(const std::string& bytes) { return PlainJpegSize(bytes).has_value(); }

std::string Segment(char marker, const std::string& contents) {
  const size_t length = contents.size() + 2;
  return "\xFF"s + marker + static_cast<char>(length >> 8) + static_cast<char>(length & 0xFF) + contents;
}

std::string WithSegment(std::string bytes, const std::string& segment) { return bytes.insert(kStart, segment); }

/// An EXIF segment that notes an orientation.
std::string Exif(char orientation) {
  return Segment('\xE1', "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"s + orientation + "\0\0"s);
}

std::string Adobe(char transform) { return Segment('\xEE', "Adobe\0\x64\0\0\0\0"s + transform); }

TEST(PlainJpeg, IsWhatEveryDecoderTakes) {
  const std::set<std::string> plain = {
      "444",         "422",       "420", "440", "444_progressive", "422_progressive", "420_progressive_restart",
      "422_restart", "420_coarse"};
  const TempFolder folder;
  ASSERT_EQ(std::system((std::string(WRITE_TEST_JPEGS) + " " + folder.path()).c_str()), 0);
  size_t found = 0, others = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = file.path().stem(), bytes = ReadWholeFile(file.path());
    const auto size = PlainJpegSize(bytes);
    ASSERT_EQ(size.has_value(), plain.contains(name)) << name;
    ++(size ? found : others);
    if (!size) continue;
    const auto image = DecodeImage(bytes, ImageColor::kAsStored);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->channels, 3);
    EXPECT_EQ(size->height, image->height) << name;
    EXPECT_EQ(size->width, image->width) << name;
  }
  EXPECT_EQ(found, plain.size());
  EXPECT_GT(others, 6u);
}

TEST(PlainJpeg, IsUpright) {
  EXPECT_TRUE(IsPlain(WithSegment(Jpeg(), Exif(1))));
  EXPECT_FALSE(IsPlain(WithSegment(Jpeg(), Exif(6))));
  const std::string text = Segment('\xE1', "http://ns.adobe.com/xap/1.0/"s + '\0');
  EXPECT_TRUE(IsPlain(WithSegment(Jpeg(), text)));
  // As for DecodeImage the first of its kind alone counts.
  EXPECT_TRUE(IsPlain(WithSegment(Jpeg(), text + Exif(6))));
  EXPECT_FALSE(IsPlain(WithSegment(Jpeg(), Exif(6) + Exif(1))));
}

TEST(PlainJpeg, HasTheUsualColors) {
  EXPECT_TRUE(IsPlain(WithSegment(Jpeg(), Adobe(1))));
  EXPECT_FALSE(IsPlain(WithSegment(Jpeg(), Adobe(0)))) << "RGB, says one of two segments";
  EXPECT_FALSE(IsPlain(WithSegment(Jpeg(), Segment('\xEE', "Adobe"))));
  EXPECT_TRUE(IsPlain(WithSegment(Jpeg(), Segment('\xEE', "another"))));
}

TEST(PlainJpeg, HasAFrameOfTheUsualKind) {
  const std::string jpeg = Jpeg();
  const size_t frame = jpeg.find("\xFF\xC0\0\x11"s);
  ASSERT_NE(frame, jpeg.npos);
  const auto with = [&](size_t at, char byte) {
    std::string changed = jpeg;
    changed[frame + at] = byte;
    return PlainJpegSize(changed);
  };
  EXPECT_EQ(with(1, '\xC2')->width, 30) << "progressive";
  for (const char marker : {'\xC1', '\xC3', '\xC9', '\xCA', '\xCC'}) EXPECT_FALSE(with(1, marker));
  EXPECT_FALSE(with(4, 12)) << "bits";
  EXPECT_EQ(with(6, 21)->height, 21);
  EXPECT_FALSE(with(6, 0)) << "a height that is told at the end";
  EXPECT_FALSE(with(8, 0));
  EXPECT_FALSE(with(9, 4)) << "channels";
  EXPECT_FALSE(with(10, 'R')) << "the name of a channel";
  EXPECT_FALSE(with(11, 0x41)) << "4:1:1";
  EXPECT_TRUE(with(11, 0x11));
  EXPECT_FALSE(with(14, 0x21)) << "of the second channel";
}

TEST(PlainJpeg, IsWholeAndInOrder) {
  const std::string jpeg = Jpeg();
  ASSERT_TRUE(IsPlain(jpeg));
  for (size_t bytes = 0; bytes < jpeg.size(); ++bytes) EXPECT_FALSE(IsPlain(jpeg.substr(0, bytes))) << bytes;
  EXPECT_FALSE(IsPlain(jpeg + '\0'));
  EXPECT_FALSE(IsPlain(WithSegment(jpeg, "\0"s)));
  EXPECT_FALSE(IsPlain(WithSegment(jpeg, "\xFF"s))) << "a byte that fills up, which libjpeg reads over";
  EXPECT_FALSE(IsPlain(WithSegment(jpeg, "\xFF\xD8"s)));
  EXPECT_FALSE(IsPlain(WithSegment(jpeg, "\xFF\xE2\xFF\xFF"s))) << "a segment longer than the file";
  const size_t frame = jpeg.find("\xFF\xC0\0\x11"s);
  EXPECT_FALSE(IsPlain(WithSegment(jpeg, jpeg.substr(frame, 19)))) << "two frames";
  std::string none = jpeg;
  EXPECT_FALSE(IsPlain(none.erase(frame, 19)));
  EXPECT_FALSE(IsPlain(*EncodeImage({2, 2, 3, std::vector<unsigned char>(12)}, "png")));
}

}  // namespace
}  // namespace hp
