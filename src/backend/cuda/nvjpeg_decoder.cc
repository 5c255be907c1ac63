// Batches of all JPEGs of a micro-batch. nvJPEG keeps a batch's intermediate data in one state, in memory of the host
// that its copies read while the next batch might be written there: so a batch waits on the host until the one before
// is decoded, which lies in front of the forward pass of an earlier micro-batch. A batch fails as a whole; its images
// are then decoded one by one to find the one to blame, since the job ends with it.
#include "backend/cuda/nvjpeg_decoder.h"

#include "backend/cuda/cuda_status.h"
#include "tensor/several_devices.h"

#include "glog/logging.h"

#include <optional>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr Device::Queue kDecodeQueue = Device::kCopyIn;
constexpr size_t kBgrBytes = 3;

struct DestroyNvjpeg {
  const NvjpegApi* api = nullptr;
  void operator()(NvjpegHandle handle) const {
    const CallThatMayWaitForDevices call;
    api->destroy(handle);
  }
};
struct DestroyNvjpegState {
  const NvjpegApi* api = nullptr;
  void operator()(NvjpegState state) const {
    const CallThatMayWaitForDevices call;
    api->destroy_state(state);
  }
};

class NvjpegDecoder final : public GpuJpegDecoder {
 public:
  NvjpegDecoder(Gpu* gpu, const NvjpegApi& api) : gpu_(gpu), api_(&api) {}

  ~NvjpegDecoder() override {
    Status status = Finish();
    if (status.ok()) status = Use();  // what is destroyed belongs to the thread's current device
    if (!status.ok()) LOG(WARNING) << "nvJPEG: " << status;
  }

  Status Open() {
    HP_RETURN_IF_ERROR(Use());
    NvjpegHandle handle = nullptr;
    HP_RETURN_IF_ERROR(NvjpegStatus(Create(&handle), "nvjpegCreateEx"));
    handle_ = {handle, DestroyNvjpeg{api_}};
    NvjpegState state = nullptr;
    HP_RETURN_IF_ERROR(NvjpegStatus(CreateState(handle, &state), "nvjpegJpegStateCreate"));
    state_ = {state, DestroyNvjpegState{api_}};
    return OkStatus();
  }

  Status Decode(std::span<const GpuJpeg> jpegs, size_t* refused) override {
    *refused = jpegs.size();
    HP_RETURN_IF_ERROR(Use());
    HP_RETURN_IF_ERROR(Finish());
    Take(jpegs);
    if (jpegs.size() != batch_size_) {
      batch_size_ = jpegs.size();
      HP_RETURN_IF_ERROR(NvjpegStatus(BeginBatches(), "nvjpegDecodeBatchedInitialize"));
    }
    const NvjpegResult result = DecodeBatch();
    pending_ = gpu_->Record(kDecodeQueue);
    if (result == NvjpegResult::kSuccess) return OkStatus();
    HP_RETURN_IF_ERROR(FindRefused(refused));
    return NvjpegStatus(result, "nvjpegDecodeBatched");
  }

 private:
  Status Use() const { return CudaStatus(cudaSetDevice(gpu_->info().index), "cudaSetDevice"); }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(gpu_->stream(kDecodeQueue).cuda); }

  /// Waits until the last batch is decoded.
  Status Finish() {
    const std::optional<Device::Mark> mark = std::exchange(pending_, std::nullopt);
    return mark ? gpu_->Wait(*mark) : OkStatus();
  }

  void Take(std::span<const GpuJpeg> jpegs) {
    data_.clear();
    lengths_.clear();
    images_.clear();
    for (const GpuJpeg& jpeg : jpegs) {
      data_.push_back(reinterpret_cast<const unsigned char*>(jpeg.bytes.data()));
      lengths_.push_back(jpeg.bytes.size());
      NvjpegImage& image = images_.emplace_back();
      image.channel[0] = reinterpret_cast<unsigned char*>(jpeg.pixels);
      image.pitch[0] = static_cast<size_t>(jpeg.width) * kBgrBytes;
    }
  }

  /// Of a batch that failed. @return why the first that fails by itself does; ok: all can be decoded.
  Status FindRefused(size_t* refused) {
    batch_size_ = 0;
    for (size_t i = 0; i < images_.size(); ++i) {
      HP_RETURN_IF_ERROR(Finish());
      const NvjpegResult result = DecodeOne(i);
      pending_ = gpu_->Record(kDecodeQueue);
      if (result == NvjpegResult::kSuccess) continue;
      *refused = i;
      HP_RETURN_IF_ERROR(Finish());  // else the device failed
      return NvjpegStatusOfImage(result, "nvjpegDecode");
    }
    return OkStatus();
  }

  // nvJPEG allocates and frees in each of these as the sizes of images change.
  NvjpegResult Create(NvjpegHandle* handle) const {
    const CallThatMayWaitForDevices call;
    return api_->create(kNvjpegGpuHybrid, nullptr, nullptr, kNvjpegInterpolate, handle);
  }
  NvjpegResult CreateState(NvjpegHandle handle, NvjpegState* state) const {
    const CallThatMayWaitForDevices call;
    return api_->create_state(handle, state);
  }
  NvjpegResult BeginBatches() {
    const CallThatMayWaitForDevices call;
    return api_->begin_batches(handle_.get(), state_.get(), static_cast<int>(batch_size_), 1, kNvjpegBgrInterleaved);
  }
  NvjpegResult DecodeBatch() {
    const CallThatMayWaitForDevices call;
    return api_->decode_batch(handle_.get(), state_.get(), data_.data(), lengths_.data(), images_.data(), stream());
  }
  NvjpegResult DecodeOne(size_t i) {
    const CallThatMayWaitForDevices call;
    return api_->decode(handle_.get(), state_.get(), data_[i], lengths_[i], kNvjpegBgrInterleaved, &images_[i],
                        stream());
  }

  Gpu* const gpu_;
  const NvjpegApi* const api_;
  std::unique_ptr<NvjpegHandleOpaque, DestroyNvjpeg> handle_;
  std::unique_ptr<NvjpegStateOpaque, DestroyNvjpegState> state_;
  std::optional<Device::Mark> pending_;  // behind the last batch; nothing: it is decoded
  size_t batch_size_ = 0;                // that the state was set up for; 0: none
  // Of a batch.
  std::vector<const unsigned char*> data_;
  std::vector<size_t> lengths_;
  std::vector<NvjpegImage> images_;
};

}  // namespace

StatusOr<std::unique_ptr<GpuJpegDecoder>> MakeNvjpegDecoder(Gpu* gpu, const NvjpegApi& api) {
  auto decoder = std::make_unique<NvjpegDecoder>(gpu, api);
  HP_RETURN_IF_ERROR(decoder->Open());
  return std::unique_ptr<GpuJpegDecoder>(std::move(decoder));
}

}  // namespace hp
