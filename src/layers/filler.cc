// Random values come from Philox with the element's index in the whole blob as counter: four elements for each counter,
// so a range that starts or ends within four computes and drops the rest. Gaussian values are Box-Muller pairs, two of
// them in each four. `sparse` zeroes elements in a second pass with a stream of its own; positive_unitball divides by
// sums over whole rows, which it makes of values that may not be its own.
#include "layers/filler.h"

#include "base/philox.h"
#include "proto/caffe.pb.h"

#include "glog/logging.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace hp {
namespace {

using Four = std::array<float, 4>;

constexpr int64_t kPiece = 4096;  // elements that a thread fills at a time

/// Calls fill(begin, end, out) by all threads for ranges of elements of the whole blob that together are the block: its
/// rows, or, where these lie one behind the other, pieces of them all.
/// @param columns of the whole blob.
template <typename Fill>
void ForEachRange(const Block& block, int64_t columns, float* out, const Fill& fill) {
  if (block.empty()) return;
  const bool joined = block.cols() == columns;
  const int64_t count = block.count(), length = joined ? kPiece : block.cols(), step = joined ? kPiece : columns;
  const int64_t first = block.begin_row * columns + block.begin_col;
#pragma omp parallel for schedule(static) if (count > kPiece)
  for (int64_t range = 0; range < (count + length - 1) / length; ++range) {
    const int64_t begin = first + range * step, size = std::min(length, count - range * length);
    fill(begin, begin + size, out + range * length);
  }
}

/// Philox yields four words at a time: element i of a blob is word i % 4 of counter i / 4.
/// @param four four(group): the values of elements 4 * group to 4 * group + 3.
template <typename MakeFour>
void FillByFours(int64_t begin, int64_t end, float* out, const MakeFour& four) {
  for (int64_t group = begin / 4; group < (end + 3) / 4; ++group) {
    const Four values = four(group);
    const int64_t first = std::max(begin, 4 * group), last = std::min(end, 4 * group + 4);
    for (int64_t i = first; i < last; ++i) out[i - begin] = values[i - 4 * group];
  }
}

void FillUniform(uint64_t key, double low, double high, int64_t begin, int64_t end, float* out) {
  FillByFours(begin, end, out, [=](int64_t group) {
    const std::array<uint32_t, 4> words = Philox4x32(key, 0, static_cast<uint64_t>(group));
    Four values;
    for (int k = 0; k < 4; ++k) values[k] = static_cast<float>(low + (high - low) * UnitFloat(words[k]));
    return values;
  });
}

/// Box and Muller's transform, in double: hosts whose libraries differ in a last bit still round to the same float.
void FillGaussian(uint64_t key, double mean, double std, int64_t begin, int64_t end, float* out) {
  FillByFours(begin, end, out, [=](int64_t group) {
    const std::array<uint32_t, 4> words = Philox4x32(key, 0, static_cast<uint64_t>(group));
    Four values;
    for (int k = 0; k < 4; k += 2) {
      const double radius = std * std::sqrt(-2 * std::log((words[k] + 1.0) * 0x1p-32));
      const double angle = 2 * std::numbers::pi * 0x1p-32 * words[k + 1];
      values[k] = static_cast<float>(mean + radius * std::cos(angle));
      values[k + 1] = static_cast<float>(mean + radius * std::sin(angle));
    }
    return values;
  });
}

/// Zeroes each element but with probability `kept`.
void Thin(uint64_t key, double kept, int64_t begin, int64_t end, float* out) {
  FillByFours(begin, end, out, [=](int64_t group) {
    const std::array<uint32_t, 4> words = Philox4x32(key, 0, static_cast<uint64_t>(group));
    Four values;
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t i = 4 * group + k;
      const bool keep = i >= begin && i < end && UnitFloat(words[k]) <= kept;
      values[k] = keep ? out[i - begin] : 0;
    }
    return values;
  });
}

/// Enlarges an image by linear interpolation between its pixels, the same for all channels: what a Deconvolution of
/// kernel 2 f - f % 2 and stride f begins with. Source: Caffe's filler.hpp, BilinearFiller.
/// @param size of the square kernel.
void FillBilinear(int64_t size, int64_t begin, int64_t end, float* out) {
  const double half = std::ceil(static_cast<double>(size) / 2), center = static_cast<double>(size - 1) / (2 * half);
  const auto weight = [=](int64_t i) { return 1 - std::fabs(static_cast<double>(i) / half - center); };
  for (int64_t i = begin; i < end; ++i) {
    out[i - begin] = static_cast<float>(weight(i % size) * weight(i / size % size));
  }
}

/// The sum of a row's uniform values, always added from the first to the last, however the blob is divided.
double UniformSum(uint64_t key, int64_t begin, int64_t end) {
  double sum = 0;
  std::array<float, kPiece> piece;
  for (; begin < end; begin += kPiece) {
    const int64_t size = std::min(kPiece, end - begin);
    FillUniform(key, 0, 1, begin, begin + size, piece.data());
    for (int64_t i = 0; i < size; ++i) sum += piece[i];
  }
  return sum;
}

/// Positive values of which each row adds up to 1. Source: Caffe's filler.hpp, PositiveUnitballFiller.
/// @param columns of the whole blob.
void FillUnitball(uint64_t key, const Block& block, int64_t columns, float* out) {
  if (block.empty()) return;
  ForEachRange(block, columns, out,
               [=](int64_t begin, int64_t end, float* to) { FillUniform(key, 0, 1, begin, end, to); });
#pragma omp parallel for schedule(static) if (block.count() > kPiece)
  for (int64_t row = 0; row < block.rows(); ++row) {
    const int64_t first = (block.begin_row + row) * columns;
    const double sum = UniformSum(key, first, first + columns);
    for (float* at = out + row * block.cols(); at < out + (row + 1) * block.cols(); ++at) {
      *at = static_cast<float>(*at / sum);
    }
  }
}

/// The n that xavier and msra divide by. Source: Caffe's filler.hpp; fan-in is count / shape[0], fan-out count /
/// shape[1].
double Fan(const caffe::FillerParameter& filler, const Shape& whole) {
  const double count = static_cast<double>(whole.count());
  const double fan_in = count / static_cast<double>(whole.dim(0));
  const double fan_out = count / static_cast<double>(whole.dim(1));
  switch (filler.variance_norm()) {
    case caffe::FillerParameter::FAN_IN:
      return fan_in;
    case caffe::FillerParameter::FAN_OUT:
      return fan_out;
    case caffe::FillerParameter::AVERAGE:
      return (fan_in + fan_out) / 2;
  }
  return fan_in;
}

}  // namespace

void FillParam(const caffe::FillerParameter* filler, const Shape& whole, const Block& block, uint64_t seed,
               const std::string& param_name, float* out) {
  CHECK(block.LiesIn(whole)) << param_name << " [" << whole << "]: " << block;
  const std::string type = filler == nullptr ? "constant" : filler->type();
  const uint64_t key = StreamKey(seed, param_name, "filler");
  const auto uniform = [&](double low, double high) {
    ForEachRange(block, ColumnsOf(whole), out,
                 [=](int64_t begin, int64_t end, float* to) { FillUniform(key, low, high, begin, end, to); });
  };
  const auto gaussian = [&](double mean, double std) {
    ForEachRange(block, ColumnsOf(whole), out,
                 [=](int64_t begin, int64_t end, float* to) { FillGaussian(key, mean, std, begin, end, to); });
  };
  if (type == "constant") {
    std::fill_n(out, block.count(), filler == nullptr ? 0.0f : filler->value());
  } else if (type == "uniform") {
    uniform(filler->min(), filler->max());
  } else if (type == "gaussian") {
    gaussian(filler->mean(), filler->std());
    // Caffe keeps an element with probability sparse / num_output.
    const double kept = filler->sparse() / static_cast<double>(whole.dim(0));
    const uint64_t sparse_key = StreamKey(seed, param_name, "filler sparse");
    const auto thin = [=](int64_t begin, int64_t end, float* to) { Thin(sparse_key, kept, begin, end, to); };
    if (filler->sparse() >= 0) ForEachRange(block, ColumnsOf(whole), out, thin);
  } else if (type == "xavier") {
    const double limit = std::sqrt(3 / Fan(*filler, whole));
    uniform(-limit, limit);
  } else if (type == "msra") {
    gaussian(0, std::sqrt(2 / Fan(*filler, whole)));
  } else if (type == "bilinear") {
    ForEachRange(block, ColumnsOf(whole), out,
                 [size = whole.dim(3)](int64_t begin, int64_t end, float* to) { FillBilinear(size, begin, end, to); });
  } else if (type == "positive_unitball") {
    FillUnitball(key, block, ColumnsOf(whole), out);
  } else {
    LOG(FATAL) << "filler type " << type << " of " << param_name << " was not rejected by CheckFiller";
  }
}

}  // namespace hp
