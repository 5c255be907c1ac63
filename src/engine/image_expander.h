#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "input/inputs.h"
#include "model/node_model.h"
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
/// to it, and the reader's threads only decode and crop; or where JPEGs come encoded (Input::encoded) not even that.
/// Executor thread. Owned by DeviceCompute.
class ImageExpander {
 public:
  /// @param inputs prepared; they and the others must outlive it.
  /// @return kResourceExhausted: the device is out of memory. For floats it takes a whole image for each input at the
  /// most, too little to be planned (FitMemory); for JPEGs DecoderBytes. kFailedPrecondition, with the node named: the
  /// device can't decode them.
  static StatusOr<std::unique_ptr<ImageExpander>> Create(const NodeModel& model, const Inputs& inputs, Device* device,
                                                         Backend* backend);
  /// Bytes of the device's memory for the whole images of the largest micro-batch, if JPEGs come encoded, and what the
  /// library that decodes them may hold beside them.
  /// @param inputs opened.
  static size_t DecoderBytes(const NodeModel& model, const Inputs& inputs);

  /// Puts the work that decodes what is encoded among the images of `id` into Device::kCopyIn, behind the copy of all.
  /// A JPEG that can't be decoded shows up in Device::Wait.
  /// @param rows of `id`. @param on_host as Input::images, raw; must stay until the work is done. @param raw where they
  /// are copied to.
  void Decode(MsgId id, Phase phase, int64_t rows, const void* on_host, std::byte* raw) const;
  /// What is to become of the raw images of a phase. @param raw of all rows, on the device.
  RawImages ImagesOf(Phase phase, const std::byte* raw) const;
  /// Puts the work for `rows` images into Device::kCompute.
  /// @param images dense [rows, C, H, W].
  void Expand(const RawImages& raw, int64_t rows, float* images) const;

 private:
  ImageExpander(const Inputs& inputs, Device* device, Backend* backend)
      : inputs_(inputs), device_(device), backend_(backend) {}
  Status Add(Phase phase, const Input* input);

  const Inputs& inputs_;
  Device* const device_;
  Backend* const backend_;
  std::map<Phase, RawImageRule> rules_;  // with means on the device
  std::vector<Buffer> means_;
  std::unique_ptr<RawImageDecoder> decoder_;  // null: nothing comes encoded
};

}  // namespace hp
