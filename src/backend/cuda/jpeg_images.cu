// JPEGs among raw images: decoded whole into memory of the decoder, from where one kernel copies the crops of all of
// them into their places.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/rows.h"

#include <utility>
#include <vector>

namespace hp::cuda {
namespace {

constexpr int64_t kJpegChannels = 3;

/// Copies byte `i` of line `line` = row * H + h, if the row is encoded. Reads what Decode wrote and writes bytes alone,
/// so that all threads see the same RawImage.
struct CropOfWhole {
  int64_t crop_height, crop_width;
  Divisor height;
  const RawImage* images;
  const uint8_t* whole;
  int64_t stride;
  uint8_t* bytes;

  HP_HOST_DEVICE void operator()(int64_t line, uint32_t i) const {
    uint32_t h;
    const uint32_t row = height.Quotient(static_cast<uint32_t>(line), &h);
    const RawImage& image = images[row];
    if (image.encoded_bytes == 0) return;
    const int64_t from = (image.top + h) * int64_t{image.whole_width} + image.left;
    const int64_t to = (row * crop_height + h) * crop_width;
    bytes[to * kJpegChannels + i] = whole[row * stride + from * kJpegChannels + i];
  }
};

class CudaImageDecoder final : public RawImageDecoder {
 public:
  CudaImageDecoder(Gpu* gpu, std::unique_ptr<GpuJpegDecoder> jpegs, Buffer whole, int64_t rows, int64_t whole_bytes)
      : gpu_(gpu), whole_(std::move(whole)), jpegs_(std::move(jpegs)), rows_(rows), whole_bytes_(whole_bytes) {}

  void Decode(const RawImageRule& rule, int64_t rows, const std::byte* on_host, std::byte* raw,
              const std::function<std::string(int64_t row)>& describe) override {
    TakeEncoded(rule, rows, on_host);
    if (batch_.empty()) return;
    size_t refused = batch_.size();
    const Status status = jpegs_->Decode(batch_, &refused);
    if (!status.ok()) {
      return gpu_->Fail(refused < batch_.size() ? status.Prepend(describe(batch_rows_[refused])) : status);
    }
    auto* const images = reinterpret_cast<RawImage*>(raw);
    CHECK_LT(rows * rule.height, int64_t{1} << 31);
    ForEachInRows(gpu_->stream(Device::kCopyIn), rows * rule.height, rule.width * kJpegChannels,
                  CropOfWhole{rule.height, rule.width, Divisor(rule.height), images,
                              reinterpret_cast<const uint8_t*>(whole_.data()), Stride(),
                              reinterpret_cast<uint8_t*>(images + rows)});
  }

 private:
  int64_t Stride() const { return static_cast<int64_t>(WholeImageStride(whole_bytes_)); }

  /// Makes the batch of the rows that are encoded.
  void TakeEncoded(const RawImageRule& rule, int64_t rows, const std::byte* on_host) {
    CHECK_LE(rows, rows_);
    batch_.clear();
    batch_rows_.clear();
    const auto* const images = reinterpret_cast<const RawImage*>(on_host);
    const auto* const bytes = reinterpret_cast<const std::byte*>(images + rows);
    for (int64_t row = 0; row < rows; ++row) {
      const RawImage& image = images[row];
      if (image.encoded_bytes == 0) continue;
      CHECK_EQ(rule.channels, kJpegChannels);
      CHECK_LE(int64_t{image.whole_height} * image.whole_width * kJpegChannels, whole_bytes_);
      batch_rows_.push_back(row);
      batch_.push_back({{bytes + row * rule.values(), static_cast<size_t>(image.encoded_bytes)},
                        image.whole_height,
                        image.whole_width,
                        whole_.data() + row * Stride()});
    }
  }

  Gpu* const gpu_;
  const Buffer whole_;  // [rows_] of Stride() bytes; used by kCopyIn alone, which keeps the order of batches
  const std::unique_ptr<GpuJpegDecoder> jpegs_;
  const int64_t rows_, whole_bytes_;
  std::vector<GpuJpeg> batch_;
  std::vector<int64_t> batch_rows_;  // of each
};

}  // namespace

StatusOr<std::unique_ptr<RawImageDecoder>> CudaBackend::ImageDecoder(int64_t rows, int64_t whole_bytes) {
  HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuJpegDecoder> jpegs, library_->JpegDecoder());
  HP_ASSIGN_OR_RETURN(Buffer whole, context_.gpu->Allocate(rows * WholeImageStride(whole_bytes)));
  return std::unique_ptr<RawImageDecoder>(
      std::make_unique<CudaImageDecoder>(context_.gpu, std::move(jpegs), std::move(whole), rows, whole_bytes));
}

}  // namespace hp::cuda
