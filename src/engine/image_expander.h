#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "input/inputs.h"
#include "proto/phase.h"
#include "tensor/device.h"
#include "tensor/raw_images.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace hp {

/// Makes floats of raw images on the device, which has the mean images of all phases: so a quarter of the bytes crosses
/// to it, and the reader's threads only decode and crop. Executor thread. Owned by DeviceCompute.
class ImageExpander {
 public:
  /// @param inputs prepared; they and the others must outlive it.
  /// @return kResourceExhausted: the device is out of memory. Its memory, a whole image of floats for each input at the
  /// most, is too little to be planned (FitMemory).
  static StatusOr<std::unique_ptr<ImageExpander>> Create(const Inputs& inputs, Device* device, Backend* backend);

  /// Puts the work for `rows` images of a phase into Device::kCompute.
  /// @param raw RawImagesBytes of them. @param images dense [rows, C, H, W].
  void Expand(Phase phase, int64_t rows, const std::byte* raw, float* images) const;

 private:
  ImageExpander(Device* device, Backend* backend) : device_(device), backend_(backend) {}
  Status Add(Phase phase, const Input* input);

  Device* const device_;
  Backend* const backend_;
  std::map<Phase, RawImageRule> rules_;  // with means on the device
  std::vector<Buffer> means_;
};

}  // namespace hp
