#include "test/unit/backend/raw_image_batch.h"

namespace hp::test {
namespace {

/// By another way than the rule's: through the whole images.
Values Expected(const RawImageBatch& batch) {
  const RawImageRule& rule = batch.rule;
  const auto* const images = reinterpret_cast<const RawImage*>(batch.raw.data());
  const auto* bytes = reinterpret_cast<const uint8_t*>(images + batch.rows);
  Values expected(batch.rows * rule.values());
  for (int64_t row = 0; row < batch.rows; ++row, bytes += rule.values()) {
    for (int64_t i = 0; i < rule.values(); ++i) {
      int64_t c = i / (rule.height * rule.width), h = i / rule.width % rule.height, w = i % rule.width;
      if (images[row].channels_inside)
        h = i / (rule.width * rule.channels), w = i / rule.channels % rule.width, c = i % rule.channels;
      const float mean =
          rule.mean_height == 1
              ? batch.mean[c]
              : batch.mean[(c * rule.mean_height + images[row].top + h) * rule.mean_width + images[row].left + w];
      const int64_t column = images[row].mirrored ? rule.width - 1 - w : w;
      expected[((row * rule.channels + c) * rule.height + h) * rule.width + column] =
          (static_cast<float>(bytes[i]) - mean) * rule.scale;
    }
  }
  return expected;
}

TEST(FloatImages, AreCroppedMirroredAndLessTheirMean) {
  for (const Shape& crop : {Shape{3, 7, 5}, Shape{1, 8, 8}, Shape{4, 1, 300}, Shape{2, 33, 40}}) {
    for (const bool mean_image : {false, true}) {
      for (const int64_t rows : {1, 9}) {
        const RawImageBatch batch = SomeImages(rows, crop, mean_image);
        Values made(rows * batch.rule.values() + 1, 77);
        UnderTest().backend->FloatImages(batch.rule, rows, batch.raw.data(), made.data());
        if (UnderTest().waits) {
          EXPECT_EQ(made[0], 77);
        }
        ASSERT_TRUE(UnderTest().device->Synchronize().ok());
        EXPECT_EQ(made.back(), 77);
        made.pop_back();
        EXPECT_EQ(made, Expected(batch));
      }
    }
  }
}

}  // namespace
}  // namespace hp::test
