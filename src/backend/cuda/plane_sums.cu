// A channel's elements, [images][pixels], are one list that is cut into pieces, however small or large an image's plane
// is. A block of threads sums a piece, and another kernel the pieces. Neighbouring threads read neighbouring pixels.
#include "backend/activation_rules.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/plane_sums.h"

#include <algorithm>

namespace hp::cuda {
namespace {

/// A thread reads so many elements of each tensor before it uses the first.
constexpr int kPixelsAhead = 4;

/// All pieces have `elements` elements but the last, which may have fewer.
struct PlanePieces {
  int64_t count, elements;

  explicit PlanePieces(const Shape& shape) {
    // 4,096 elements are four turns of a block's threads, before these combine their sums in eight steps. The sums take
    // up to 2 MiB, and a thread of the last kernel adds up to 64 of them.
    constexpr int64_t kSums = 512 * 1024, kMostPieces = 16 * 1024, kElements = 4096;
    const int64_t all = shape[0] * shape.count(2);
    const int64_t most = std::max<int64_t>(std::min({kSums / shape[1], kMostPieces, all / kElements}), 1);
    elements = std::max<int64_t>((all + most - 1) / most, 1);
    count = std::max<int64_t>((all + elements - 1) / elements, 1);
  }
};

/// The elements of one channel in one piece, of which a thread takes those that are a part of the piece apart.
template <typename Take>
struct PlanePiece {
  Take take;
  Divisor pixels;
  int64_t image;     ///< elements from one of the channel's planes to the next
  int64_t begin;     ///< where its first plane begins
  uint32_t first;    ///< pixel of that plane
  int64_t elements;  ///< of the piece
  int64_t width;     ///< a part of them, rounded up

  HP_HOST_DEVICE float operator()(int64_t i) const {
    int64_t at[kPixelsAhead];
    for (int k = 0; k < kPixelsAhead; ++k) {
      const int64_t element = i + k * width;
      uint32_t pixel;
      const uint32_t plane = pixels.Quotient(first + static_cast<uint32_t>(element), &pixel);
      at[k] = element < elements ? begin + plane * image + pixel : -1;
    }
    return take(at);
  }
};

/// The sum of each piece of each channel.
template <typename Take>
struct SumPlanes {
  using Value = float;
  Take take;
  Divisor pixels;
  int64_t channels, all, elements;  ///< of a channel, and of a piece
  float* sums;                      ///< [pieces][channels], or null

  HP_HOST_DEVICE PlanePiece<Take> RowAt(int64_t item) const {
    const int64_t piece = item / channels, channel = item - piece * channels;
    const int64_t begin = piece * elements, left = all - begin, here = left < elements ? left : elements;
    const int64_t plane = begin / pixels.value(), image = channels * pixels.value();
    return {take,
            pixels,
            image,
            plane * image + channel * pixels.value(),
            static_cast<uint32_t>(begin - plane * pixels.value()),
            here,
            (here + kPixelsAhead - 1) / kPixelsAhead};
  }
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t item, const Value& sum) const {
    if (sums != nullptr) sums[item] = sum;
  }
};

/// `from` is read once.
struct TakeElements {
  const float* from;
  HP_HOST_DEVICE float operator()(const int64_t* at) const {
    float read[kPixelsAhead], sum = 0;
    for (int k = 0; k < kPixelsAhead; ++k) read[k] = at[k] < 0 ? 0 : from[at[k]];
    for (int k = 0; k < kPixelsAhead; ++k) sum += read[k];
    return sum;
  }
};

/// The same of a ReLU's gradient, which is made on the way. y is read, and dy read and written, once.
struct TakeReluGradient {
  activation::Relu<activation::From::kOutput> relu;
  const float* y;
  float* dy;
  /// All loads come first: for all that the compiler knows a store to dy changes y, so it moves no load across one.
  HP_HOST_DEVICE float operator()(const int64_t* at) const {
    float seen[kPixelsAhead], gradient[kPixelsAhead], sum = 0;
    for (int k = 0; k < kPixelsAhead; ++k) {
      seen[k] = at[k] < 0 ? 0 : y[at[k]], gradient[k] = at[k] < 0 ? 0 : dy[at[k]];
    }
    for (int k = 0; k < kPixelsAhead; ++k) {
      const float masked = gradient[k] * relu.Derivative(seen[k]);
      if (at[k] >= 0) dy[at[k]] = masked;
      sum += masked;
    }
    return sum;
  }
};

template <typename Take>
void RunPlanes(const GpuStream& stream, const Shape& shape, const Take& take, float* sums) {
  const PlanePieces pieces(shape);
  const int64_t pixels = shape.count(2), all = shape[0] * pixels;
  CHECK_LT(pixels + pieces.elements + kPixelsAhead, int64_t{1} << 31);  // what the divisor divides
  ReduceRows(stream, pieces.count * shape[1], 0,
             SumPlanes<Take>{take, Divisor(pixels), shape[1], all, pieces.elements, sums});
}

}  // namespace

int64_t PlaneSumsScratch(const Shape& shape) { return PlanePieces(shape).count * shape[1]; }

void PlaneSums(const GpuStream& stream, const Shape& shape, const float* from, bool add, float* to, float* scratch) {
  RunPlanes(stream, shape, TakeElements{from}, scratch);
  AddPlaneSums(stream, shape, scratch, add, to);
}

void ReluPlaneSums(const GpuStream& stream, const Shape& shape, const float* y, float* dy, float* sums) {
  RunPlanes(stream, shape, TakeReluGradient{{}, y, dy}, sums);
}

void AddPlaneSums(const GpuStream& stream, const Shape& shape, const float* sums, bool add, float* to) {
  AddPieces(stream, PlanePieces(shape).count, shape[1], sums, add, to);
}

}  // namespace hp::cuda
