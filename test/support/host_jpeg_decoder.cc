#include "test/support/host_jpeg_decoder.h"

#include "data/image.h"

#include "glog/logging.h"

#include <algorithm>
#include <string>
#include <vector>

namespace hp::test {
namespace {

class HostJpegDecoder : public GpuJpegDecoder {
 public:
  explicit HostJpegDecoder(Gpu* gpu) : gpu_(gpu) {}

  Status Decode(std::span<const GpuJpeg> jpegs, size_t* refused) override {
    for (size_t i = 0; i < jpegs.size(); ++i) {
      *refused = i;
      HP_RETURN_IF_ERROR(DecodeOne(jpegs[i]).status());
    }
    *refused = jpegs.size();
    gpu_->stream(Device::kCopyIn).host->Enqueue([batch = std::vector<GpuJpeg>(jpegs.begin(), jpegs.end())] {
      for (const GpuJpeg& jpeg : batch) {
        const StatusOr<Image> image = DecodeOne(jpeg);
        CHECK(image.ok()) << "a JPEG was changed before it was decoded: " << image.status();
        CHECK(image->height == jpeg.height && image->width == jpeg.width && image->channels == 3);
        std::ranges::copy(image->pixels, reinterpret_cast<unsigned char*>(jpeg.pixels));
      }
    });
    return OkStatus();
  }

 private:
  static StatusOr<Image> DecodeOne(const GpuJpeg& jpeg) {
    return DecodeImage({reinterpret_cast<const char*>(jpeg.bytes.data()), jpeg.bytes.size()}, ImageColor::kColor);
  }

  Gpu* const gpu_;
};

}  // namespace

std::unique_ptr<GpuJpegDecoder> MakeHostJpegDecoder(Gpu* gpu) { return std::make_unique<HostJpegDecoder>(gpu); }

}  // namespace hp::test
