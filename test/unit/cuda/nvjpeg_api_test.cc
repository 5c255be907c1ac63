#include "backend/cuda/nvjpeg_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>

#ifdef HP_WITH_NVJPEG_HEADER
#include <nvjpeg.h>
#endif

namespace hp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

#ifdef HP_WITH_NVJPEG_HEADER

// What is declared in nvjpeg_api.h, beside the header that it stands in for.

constexpr bool IsSame(NvjpegResult ours, nvjpegStatus_t theirs) { return static_cast<int>(ours) == theirs; }

static_assert(IsSame(NvjpegResult::kSuccess, NVJPEG_STATUS_SUCCESS));
static_assert(IsSame(NvjpegResult::kNotInitialized, NVJPEG_STATUS_NOT_INITIALIZED));
static_assert(IsSame(NvjpegResult::kInvalidParameter, NVJPEG_STATUS_INVALID_PARAMETER));
static_assert(IsSame(NvjpegResult::kBadJpeg, NVJPEG_STATUS_BAD_JPEG));
static_assert(IsSame(NvjpegResult::kJpegNotSupported, NVJPEG_STATUS_JPEG_NOT_SUPPORTED));
static_assert(IsSame(NvjpegResult::kAllocatorFailure, NVJPEG_STATUS_ALLOCATOR_FAILURE));
static_assert(IsSame(NvjpegResult::kExecutionFailed, NVJPEG_STATUS_EXECUTION_FAILED));
static_assert(IsSame(NvjpegResult::kArchMismatch, NVJPEG_STATUS_ARCH_MISMATCH));
static_assert(IsSame(NvjpegResult::kInternalError, NVJPEG_STATUS_INTERNAL_ERROR));
static_assert(IsSame(NvjpegResult::kImplementationNotSupported, NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED));
static_assert(IsSame(NvjpegResult::kIncompleteBitstream, NVJPEG_STATUS_INCOMPLETE_BITSTREAM));
static_assert(kNvjpegGpuHybrid == static_cast<int>(NVJPEG_BACKEND_GPU_HYBRID));
static_assert(kNvjpegBgrInterleaved == static_cast<int>(NVJPEG_OUTPUT_BGRI));
static_assert(kNvjpegInterpolate == (NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION));
static_assert(kNvjpegMaxComponents == NVJPEG_MAX_COMPONENT);
static_assert(sizeof(NvjpegImage) == sizeof(nvjpegImage_t));
static_assert(offsetof(NvjpegImage, channel) == offsetof(nvjpegImage_t, channel));
static_assert(offsetof(NvjpegImage, pitch) == offsetof(nvjpegImage_t, pitch));
static_assert(std::is_same_v<decltype(NvjpegImage::channel), decltype(nvjpegImage_t::channel)>);
static_assert(std::is_same_v<decltype(NvjpegImage::pitch), decltype(nvjpegImage_t::pitch)>);

/// Whether values of one type pass as those of the other: numbers of equal size and kind, or pointers.
template <typename Ours, typename Theirs>
constexpr bool Passes() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && (std::is_enum_v<Ours> || std::is_integral_v<Ours>);
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
constexpr bool AreCalledAlike(OurResult (*)(Ours...), TheirResult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return Passes<OurResult, TheirResult>() && (Passes<Ours, Theirs>() && ...);
  } else {
    return false;
  }
}

constexpr NvjpegApi kNone;
static_assert(AreCalledAlike(kNone.get_property, decltype(&nvjpegGetProperty){}));
static_assert(AreCalledAlike(kNone.create, decltype(&nvjpegCreateEx){}));
static_assert(AreCalledAlike(kNone.destroy, decltype(&nvjpegDestroy){}));
static_assert(AreCalledAlike(kNone.create_state, decltype(&nvjpegJpegStateCreate){}));
static_assert(AreCalledAlike(kNone.destroy_state, decltype(&nvjpegJpegStateDestroy){}));
static_assert(AreCalledAlike(kNone.begin_batches, decltype(&nvjpegDecodeBatchedInitialize){}));
static_assert(AreCalledAlike(kNone.decode_batch, decltype(&nvjpegDecodeBatched){}));
static_assert(AreCalledAlike(kNone.decode, decltype(&nvjpegDecode){}));

#endif

std::string MappedFiles() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

/// Where it is there all of its functions are found, and without a GPU the first one says so; else what is missing, and
/// what helps.
TEST(NvjpegApi, IsLoadedWhenItIsAskedForOrSaysWhatIsMissing) {
  EXPECT_THAT(MappedFiles(), Not(HasSubstr("libnvjpeg")));
  const StatusOr<const NvjpegApi*> api = LoadNvjpeg();
  if (!api.ok()) {
    EXPECT_EQ(ExitStatus(api.status()), 2);
    EXPECT_THAT(api.status().message(), AllOf(HasSubstr("nvJPEG"), HasSubstr("libnvjpeg of CUDA 12.1 or later"),
                                              HasSubstr("or take jpeg_decoder: HOST")));
    return;
  }
  EXPECT_THAT(MappedFiles(), HasSubstr("libnvjpeg"));
  EXPECT_EQ(*LoadNvjpeg(), *api) << "once";
  NvjpegHandle handle = nullptr;
  const NvjpegResult result = (*api)->create(kNvjpegGpuHybrid, nullptr, nullptr, kNvjpegInterpolate, &handle);
  if (result == NvjpegResult::kSuccess) {
    EXPECT_EQ((*api)->destroy(handle), NvjpegResult::kSuccess);
    return;
  }
  const Status status = NvjpegStatus(result, "nvjpegCreateEx");
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("nvJPEG: nvjpegCreateEx: NVJPEG_STATUS_"));
}

TEST(NvjpegApi, AFaultOfTheJpegIsNoneOfOurs) {
  EXPECT_TRUE(NvjpegStatus(NvjpegResult::kSuccess, "x").ok());
  for (const NvjpegResult result :
       {NvjpegResult::kBadJpeg, NvjpegResult::kJpegNotSupported, NvjpegResult::kIncompleteBitstream}) {
    EXPECT_EQ(NvjpegStatus(result, "x").code(), StatusCode::kDataLoss);
    EXPECT_THAT(NvjpegStatus(result, "x").message(), HasSubstr("jpeg_decoder: HOST"));
  }
  EXPECT_EQ(NvjpegStatus(static_cast<NvjpegResult>(99), "x").message(), "nvJPEG: x: an unknown status (99)");
}

}  // namespace
}  // namespace hp
