#pragma once

#include "tensor/raw_images.h"
#include "test/unit/backend/op_test_util.h"

namespace hp::test {

/// Raw images in memory that the backend under test reaches.
struct RawImageBatch {
  int64_t rows;
  RawImageRule rule;
  ReachableVector<std::byte> raw;
  Values mean;
};

/// Images that are each cropped elsewhere, mirrored or not, in either order of bytes.
inline RawImageBatch SomeImages(int64_t rows, const Shape& crop, bool mean_image) {
  RawImageBatch batch{rows, {crop[0], crop[1], crop[2], 0.017f}, {}, {}};
  if (mean_image) batch.rule.mean_height = crop[1] + 4, batch.rule.mean_width = crop[2] + 3;
  batch.mean = RandomValues(batch.rule.mean_values(), 1, 90, 130);
  batch.rule.mean = batch.mean.data();
  batch.raw.resize(RawImagesBytes(rows, batch.rule.values()));
  auto* const images = reinterpret_cast<RawImage*>(batch.raw.data());
  for (int32_t row = 0; row < rows; ++row) images[row] = {row % 5, row % 4, row % 2, row / 2 % 2};
  std::mt19937 random(2);
  for (size_t i = rows * sizeof(RawImage); i < batch.raw.size(); ++i) batch.raw[i] = static_cast<std::byte>(random());
  return batch;
}

}  // namespace hp::test
