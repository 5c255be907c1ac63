#pragma once

#include "tensor/raw_images.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace hp {

/// Decodes the JPEGs among raw images (RawImage::encoded_bytes) on a device with memory of its own, and puts their
/// crops in their places. All work goes to Device::kCopyIn, and none of it is captured: what is put there depends on
/// the records. One thread at a time, that which feeds kCopyIn. Made by Backend::ImageDecoder; the backend must outlive
/// it.
///
///   device->Upload(Device::kCopyIn, raw, on_host, RawImagesBytes(rows, rule.values()));
///   decoder->Decode(rule, rows, on_host, raw, describe);
///   device->Order(Device::kCopyIn, Device::kCompute);
///   backend->FloatImages(rule, rows, raw, images);
class RawImageDecoder {
 public:
  virtual ~RawImageDecoder() = default;
  /// Blocks until the device has decoded what the call before left to it, and may block while it decodes a part on the
  /// host. A JPEG that it can't decode shows up in Device::Wait as kDataLoss, with its row's name.
  /// @param rule of the images; three channels where some are encoded.
  /// @param rows at most those that the decoder was made for.
  /// @param on_host RawImagesBytes of the images in the host's memory, which must stay unmodified until the work is
  /// done.
  /// @param raw the same in the device's memory, once what is in kCopyIn is done. Of encoded images only the bytes
  /// change: they are pixels then, whatever encoded_bytes says.
  /// @param describe names a row for a message; called before Decode returns.
  virtual void Decode(const RawImageRule& rule, int64_t rows, const std::byte* on_host, std::byte* raw,
                      const std::function<std::string(int64_t row)>& describe) = 0;
};

/// Bytes between two whole images in the device's memory. @param whole_bytes of the largest.
inline size_t WholeImageStride(int64_t whole_bytes) { return (static_cast<size_t>(whole_bytes) + 255) / 256 * 256; }

}  // namespace hp
