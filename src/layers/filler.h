#pragma once

#include "base/block.h"
#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <string>

namespace caffe {
class FillerParameter;
}  // namespace caffe

namespace hp {

/// Writes the initial values of a block of one parameter to out[0, block.count()), dense, in host memory. Element i of
/// the whole blob is a function of (seed, param_name, i) alone, so each shard fills its own block, and the blocks of
/// any division by rows, columns or both make the same blob on every host. Uses all threads of the OpenMP team.
/// @param filler checked by CheckFiller; null: zeros.
/// @param whole shape of the whole blob, from which xavier and msra take fan-in and fan-out as Caffe does.
/// @param block must lie in `whole` (CHECK). @param seed the job's. @param param_name "conv1.0" (ParamSpec::name),
/// names the stream of random numbers.
void FillParam(const caffe::FillerParameter* filler, const Shape& whole, const Block& block, uint64_t seed,
               const std::string& param_name, float* out);

}  // namespace hp
