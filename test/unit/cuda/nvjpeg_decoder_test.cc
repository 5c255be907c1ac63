// What the decoder calls, on a CUDA and an nvJPEG that are not there.
#include "backend/cuda/nvjpeg_decoder.h"

#include "base/thread.h"
#include "tensor/several_devices.h"
#include "test/support/fake_cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace hp::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The library: what was called, and what it answers.
struct FakeNvjpeg {
  std::vector<std::string> calls;
  NvjpegResult of_batch = NvjpegResult::kSuccess, of_handle = NvjpegResult::kSuccess;
  int bad = -1;  ///< which image of the last batch is not decoded by itself either
  NvjpegResult of_bad = NvjpegResult::kBadJpeg;
  std::vector<const unsigned char*> data;
  std::vector<size_t> lengths;
  std::vector<NvjpegImage> images;
  int batch_size = 0;
  cudaStream_t stream = nullptr;
  int waits = 0;  ///< for events, before the last batch
};

FakeNvjpeg* fake = nullptr;

const NvjpegApi kFakeApi = {
    .get_property = nullptr,
    .create =
        [](int backend, void* device, void* pinned, unsigned flags, NvjpegHandle* handle) {
          EXPECT_EQ(backend, kNvjpegGpuHybrid);
          EXPECT_EQ(flags, kNvjpegInterpolate);
          EXPECT_TRUE(device == nullptr && pinned == nullptr);
          fake->calls.emplace_back("create");
          *handle = reinterpret_cast<NvjpegHandle>(fake);
          return fake->of_handle;
        },
    .destroy =
        [](NvjpegHandle) {
          fake->calls.emplace_back("destroy");
          return NvjpegResult::kSuccess;
        },
    .create_state =
        [](NvjpegHandle handle, NvjpegState* state) {
          fake->calls.emplace_back("create state");
          *state = reinterpret_cast<NvjpegState>(handle);
          return NvjpegResult::kSuccess;
        },
    .destroy_state =
        [](NvjpegState) {
          fake->calls.emplace_back("destroy state");
          return NvjpegResult::kSuccess;
        },
    .begin_batches =
        [](NvjpegHandle, NvjpegState, int batch_size, int, int format) {
          EXPECT_EQ(format, kNvjpegBgrInterleaved);
          fake->batch_size = batch_size;
          fake->calls.push_back("begin " + std::to_string(batch_size));
          return NvjpegResult::kSuccess;
        },
    .decode_batch =
        [](NvjpegHandle, NvjpegState, const unsigned char* const* data, const size_t* lengths, NvjpegImage* images,
           cudaStream_t stream) {
          fake->data.assign(data, data + fake->batch_size);
          fake->lengths.assign(lengths, lengths + fake->batch_size);
          fake->images.assign(images, images + fake->batch_size);
          fake->stream = stream;
          fake->waits = fake_cuda::Calls("cudaEventSynchronize");
          fake->calls.push_back("decode " + std::to_string(fake->batch_size));
          return fake->of_batch;
        },
    .decode =
        [](NvjpegHandle, NvjpegState, const unsigned char* data, size_t, int, NvjpegImage* image, cudaStream_t) {
          for (int i = 0; i < fake->batch_size; ++i) {
            if (fake->data[i] != data) continue;
            EXPECT_EQ(image->channel[0], fake->images[i].channel[0]);
            fake->calls.push_back("one " + std::to_string(i));
            return i == fake->bad ? fake->of_bad : NvjpegResult::kSuccess;
          }
          ADD_FAILURE() << "no image of the batch";
          return NvjpegResult::kSuccess;
        }};

class NvjpegDecoderTest : public testing::Test {
 protected:
  NvjpegDecoderTest() {
    fake_cuda::Reset(2);
    fake = &fake_;
    gpu_ = OpenGpu(1).value();
  }
  ~NvjpegDecoderTest() override {
    decoder_.reset();
    gpu_.reset();
    EXPECT_THAT(fake_cuda::Misuses(), IsEmpty());
    EXPECT_EQ(fake_cuda::Leaks(), 0u);
  }
  void Make() {
    auto decoder = MakeNvjpegDecoder(gpu_.get(), kFakeApi);
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    decoder_ = *std::move(decoder);
    fake_.calls.clear();
  }
  Status Decode(int64_t count, size_t* refused) {
    std::vector<GpuJpeg> jpegs;
    for (int64_t i = 0; i < count; ++i) {
      jpegs.push_back({{bytes_.data() + i, static_cast<size_t>(10 + i)}, 5, 7 + i, pixels_.data() + i});
    }
    return decoder_->Decode(jpegs, refused);
  }

  FakeNvjpeg fake_;
  std::array<std::byte, 32> bytes_, pixels_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<GpuJpegDecoder> decoder_;
};

TEST_F(NvjpegDecoderTest, GivesABatchToTheStreamOfCopiesIn) {
  Make();
  size_t refused = 0;
  ASSERT_TRUE(Decode(3, &refused).ok());
  EXPECT_EQ(fake_.stream, gpu_->stream(Device::kCopyIn).cuda);
  EXPECT_THAT(fake_.lengths, ElementsAre(10, 11, 12));
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(fake_.data[i], reinterpret_cast<unsigned char*>(bytes_.data() + i));
    EXPECT_EQ(fake_.images[i].channel[0], reinterpret_cast<unsigned char*>(pixels_.data() + i));
    EXPECT_EQ(fake_.images[i].pitch[0], static_cast<size_t>(3 * (7 + i))) << "bytes of a row";
  }
}

/// The state is set up for batches of a size, and is one batch's at a time.
TEST_F(NvjpegDecoderTest, WaitsForTheBatchBefore) {
  Make();
  size_t refused = 0;
  const int before = fake_cuda::Calls("cudaEventSynchronize");
  for (const int count : {3, 3, 2, 3}) ASSERT_TRUE(Decode(count, &refused).ok());
  EXPECT_THAT(fake_.calls,
              ElementsAre("begin 3", "decode 3", "decode 3", "begin 2", "decode 2", "begin 3", "decode 3"));
  EXPECT_EQ(fake_.waits - before, 3) << "the last one waits to be destroyed";
  fake_.calls.clear();
  decoder_.reset();
  EXPECT_EQ(fake_cuda::Calls("cudaEventSynchronize") - before, 4);
  EXPECT_THAT(fake_.calls, ElementsAre("destroy state", "destroy"));
}

TEST_F(NvjpegDecoderTest, FindsWhichImageABatchFailedOf) {
  Make();
  fake_.of_batch = NvjpegResult::kJpegNotSupported;
  fake_.bad = 1;
  size_t refused = 0;
  const Status status = Decode(3, &refused);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("nvJPEG: nvjpegDecode: NVJPEG_STATUS_BAD_JPEG"));
  EXPECT_EQ(refused, 1u);
  EXPECT_THAT(fake_.calls, ElementsAre("begin 3", "decode 3", "one 0", "one 1"));
}

/// What nvJPEG says of a table that makes no sense.
TEST_F(NvjpegDecoderTest, DamageThatShowsInDecodingIsTheImages) {
  Make();
  fake_.of_batch = fake_.of_bad = NvjpegResult::kExecutionFailed;
  fake_.bad = 0;
  size_t refused = 0;
  const Status status = Decode(2, &refused);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("nvjpegDecode: NVJPEG_STATUS_EXECUTION_FAILED"));
  EXPECT_EQ(refused, 0u);
}

/// Then it is no image's fault.
TEST_F(NvjpegDecoderTest, ABatchMayFailByItself) {
  Make();
  fake_.of_batch = NvjpegResult::kAllocatorFailure;
  size_t refused = 0;
  const Status status = Decode(2, &refused);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("nvjpegDecodeBatched: NVJPEG_STATUS_ALLOCATOR_FAILURE"));
  EXPECT_EQ(refused, 2u) << "none";
}

/// Its library allocates in every one of these calls.
TEST_F(NvjpegDecoderTest, NothingIsCalledDuringALaunchOnSeveralGpus) {
  Make();
  std::optional<LaunchOnSeveralDevices> launch(std::in_place);
  std::atomic<bool> is_over = false;
  Thread decoding("decoding", [&] {
    size_t refused = 0;
    EXPECT_TRUE(Decode(2, &refused).ok());
    decoder_.reset();
    is_over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_over);
  EXPECT_THAT(fake_.calls, IsEmpty());
  launch.reset();
  decoding.Join();
  EXPECT_THAT(fake_.calls, ElementsAre("begin 2", "decode 2", "destroy state", "destroy"));
}

TEST_F(NvjpegDecoderTest, WhatFailsAtTheStartIsSaid) {
  fake_.of_handle = NvjpegResult::kInvalidParameter;
  const auto decoder = MakeNvjpegDecoder(gpu_.get(), kFakeApi);
  EXPECT_THAT(decoder.status().message(), HasSubstr("nvJPEG: nvjpegCreateEx: NVJPEG_STATUS_INVALID_PARAMETER"));
  EXPECT_THAT(fake_.calls, ElementsAre("create"));
}

}  // namespace
}  // namespace hp::test
