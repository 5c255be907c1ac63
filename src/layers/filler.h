#pragma once

#include "base/shape.h"

#include <cstdint>
#include <string>

namespace caffe {
class FillerParameter;
}  // namespace caffe

namespace hp {

/// Writes elements [begin, end) of the initial value of one parameter to out[0, end - begin). Element i is a function
/// of (seed, param_name, i) alone, so that each shard makes its own slice and the slices of any division make the
/// whole.
/// @param filler checked by CheckFiller; null: zeros.
/// @param whole shape of the whole blob, from which xavier and msra take fan-in and fan-out as Caffe does.
/// @param param_name "conv1.0", names the stream of random numbers.
void FillParam(const caffe::FillerParameter* filler, const Shape& whole, int64_t begin, int64_t end, uint64_t seed,
               const std::string& param_name, float* out);

}  // namespace hp
