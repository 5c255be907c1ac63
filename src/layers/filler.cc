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

constexpr int64_t kWorthwhile = 4096;  // elements that several threads fill sooner than one

/// Philox yields four words at a time: element i of a blob is word i % 4 of counter i / 4.
/// @param four four(group): the values of elements 4 * group to 4 * group + 3.
template <typename MakeFour>
void FillByFours(int64_t begin, int64_t end, float* out, const MakeFour& four) {
#pragma omp parallel for schedule(static) if (end - begin > kWorthwhile)
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

/// Whether `field` says something to fillers of `type`. Caffe's model zoo is full of `type: "xavier" std: 0.1`.
bool HasMeaning(const std::string& type, const std::string& field) {
  if (field == "type") return true;
  if (type == "constant") return field == "value";
  if (type == "uniform") return field == "min" || field == "max";
  if (type == "gaussian") return field == "mean" || field == "std" || field == "sparse";
  return field == "variance_norm";
}

void WarnOfFieldsWithoutMeaning(const caffe::FillerParameter& filler, const std::string& where) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  filler.GetReflection()->ListFields(filler, &fields);
  for (const auto* field : fields) {
    if (HasMeaning(filler.type(), field->name())) continue;
    LOG(WARNING) << where << ": " << field->name() << " has no meaning for filler type \"" << filler.type()
                 << "\", here as in Caffe";
  }
}

Status CheckType(const std::string& type, const std::string& where) {
  for (const char* known : {"constant", "uniform", "gaussian", "xavier", "msra"}) {
    if (type == known) return OkStatus();
  }
  if (type == "positive_unitball" || type == "bilinear") {
    return InvalidArgument("%s: type \"%s\" is a Caffe filler that hpnode does not support yet", where.c_str(),
                           type.c_str());
  }
  return InvalidArgument("%s: unknown filler type \"%s\"; known are constant, uniform, gaussian, xavier, msra",
                         where.c_str(), type.c_str());
}

}  // namespace

Status CheckFiller(const caffe::FillerParameter& filler, const Shape& whole, const std::string& where) {
  HP_RETURN_IF_ERROR(CheckType(filler.type(), where));
  if (filler.type() == "uniform" && !(filler.min() <= filler.max())) {
    return InvalidArgument("%s: min %g is greater than max %g", where.c_str(), filler.min(), filler.max());
  }
  if (filler.type() == "gaussian" && !(filler.std() >= 0)) {
    return InvalidArgument("%s: std %g is negative", where.c_str(), filler.std());
  }
  if (filler.type() == "gaussian" && (filler.sparse() < -1 || filler.sparse() > whole.dim(0))) {
    return InvalidArgument("%s: sparse %d is not in -1..%lld (non-zero inputs of an output; -1: all)", where.c_str(),
                           filler.sparse(), static_cast<long long>(whole.dim(0)));
  }
  WarnOfFieldsWithoutMeaning(filler, where);
  return OkStatus();
}

void FillParam(const caffe::FillerParameter* filler, const Shape& whole, int64_t begin, int64_t end, uint64_t seed,
               const std::string& param_name, float* out) {
  const std::string type = filler == nullptr ? "constant" : filler->type();
  const uint64_t key = StreamKey(seed, param_name, "filler");
  if (type == "constant") {
    std::fill_n(out, end - begin, filler == nullptr ? 0.0f : filler->value());
  } else if (type == "uniform") {
    FillUniform(key, filler->min(), filler->max(), begin, end, out);
  } else if (type == "gaussian") {
    FillGaussian(key, filler->mean(), filler->std(), begin, end, out);
    // Caffe keeps an element with probability sparse / num_output.
    const double kept = filler->sparse() / static_cast<double>(whole.dim(0));
    if (filler->sparse() >= 0) Thin(StreamKey(seed, param_name, "filler sparse"), kept, begin, end, out);
  } else if (type == "xavier") {
    const double limit = std::sqrt(3 / Fan(*filler, whole));
    FillUniform(key, -limit, limit, begin, end, out);
  } else if (type == "msra") {
    FillGaussian(key, 0, std::sqrt(2 / Fan(*filler, whole)), begin, end, out);
  } else {
    LOG(FATAL) << "filler type " << type << " of " << param_name << " went past CheckFiller";
  }
}

}  // namespace hp
