#include "snapshot/pulled_blobs.h"

#include "proto/wire.pb.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace hp::test {
namespace {

using testing::HasSubstr;

PullChunk Chunk(std::initializer_list<int64_t> dims, int64_t offset, const std::vector<float>& values) {
  PullChunk chunk;
  chunk.set_layer("fc6");
  for (int64_t dim : dims) chunk.add_dim(dim);
  chunk.set_offset(offset);
  chunk.set_data(values.data(), values.size() * sizeof(float));
  return chunk;
}

TEST(PulledBlobsTest, ChunksInOrderAreJoined) {
  PulledBlobs blobs(1000);
  ASSERT_TRUE(blobs.Take(Chunk({2, 3}, 0, {1, 2, 3, 4})).ok());
  ASSERT_TRUE(blobs.Take(Chunk({2, 3}, 4, {5, 6})).ok());
  const auto whole = blobs.Finish();
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->size(), 1u);
  const Blob& blob = whole->at({"fc6", 0});
  EXPECT_EQ(blob.shape, (Shape{2, 3}));
  EXPECT_THAT(blob.data, testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(PulledBlobsTest, WhatALyingNodeClaimsCostsNothing) {
  const struct {
    PullChunk chunk;
    const char* why;
  } lies[] = {
      {Chunk({-1, 3}, 0, {1}), "a shape that no tensor has"},
      {Chunk({1 << 30, 1 << 30}, 0, {1}), "a shape that no tensor has"},
      {Chunk({0, 3}, 0, {1}), "does not follow on"},
      {Chunk({3}, 1, {1}), "does not follow on"},
      {Chunk({3}, -1, {1}), "does not follow on"},
      {Chunk({3}, 0, {1, 2, 3, 4}), "does not follow on"},
      {Chunk({3}, 0, {}), "holds no whole values"},
  };
  for (const auto& [chunk, why] : lies) {
    PulledBlobs blobs(1000);
    const Status status = blobs.Take(chunk);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_TRUE(blobs.Finish()->empty());
  }
  PulledBlobs blobs(1000);
  ASSERT_TRUE(blobs.Take(Chunk({int64_t{1} << 31 >> 1, 1000}, 0, {1})).ok());  // 4 TB are claimed, 4 bytes came
  EXPECT_THAT(blobs.Finish().status().message(), HasSubstr("the weights ended within layer \"fc6\" blob 0"));
}

TEST(PulledBlobsTest, AChunkOfAnotherShapeIsRefused) {
  PulledBlobs blobs(1000);
  ASSERT_TRUE(blobs.Take(Chunk({3}, 0, {1})).ok());
  EXPECT_THAT(blobs.Take(Chunk({4}, 1, {1})).message(), HasSubstr("another shape than the one before it"));
}

TEST(PulledBlobsTest, MoreThanTheHostsMemoryIsRefused) {
  PulledBlobs blobs(12);
  ASSERT_TRUE(blobs.Take(Chunk({8}, 0, {1, 2})).ok());
  EXPECT_EQ(blobs.Take(Chunk({8}, 2, {3, 4})).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(blobs.Take(Chunk({8}, 2, {3})).ok());
}

}  // namespace
}  // namespace hp::test
