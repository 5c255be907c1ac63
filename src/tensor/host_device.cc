#include "tensor/device.h"

#include <cstring>
#include <utility>

namespace hp {
namespace {

class HostDevice : public Device {
 public:
  explicit HostDevice(std::function<StatusOr<Buffer>(size_t bytes)> allocate_shared)
      : allocate_shared_(std::move(allocate_shared)) {}

  std::string name() const override { return "cpu"; }
  bool is_host() const override { return true; }
  size_t free_bytes() const override { return 0; }
  StatusOr<Buffer> Allocate(size_t bytes) override { return Buffer::Allocate(bytes); }
  StatusOr<Buffer> AllocateShared(size_t bytes) override {
    return allocate_shared_ && bytes > 0 ? allocate_shared_(bytes) : Allocate(bytes);
  }
  StatusOr<Buffer> AllocateHost(size_t bytes) override { return Buffer::Allocate(bytes); }
  void Upload(Queue queue, void* to, const void* from, size_t bytes) override { Copy(queue, to, from, bytes); }
  void Download(Queue queue, void* to, const void* from, size_t bytes) override { Copy(queue, to, from, bytes); }
  void Copy(Queue, void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Order(Queue, Queue) override {}
  Mark Record(Queue) override { return 0; }
  void Follow(Mark, Queue) override {}
  Status Wait(Mark) override { return OkStatus(); }
  Status Synchronize() override { return OkStatus(); }
  void RunCaptured(const CaptureKey&, const std::function<void()>& work) override { work(); }

 private:
  const std::function<StatusOr<Buffer>(size_t bytes)> allocate_shared_;
};

}  // namespace

std::unique_ptr<Device> MakeHostDevice(std::function<StatusOr<Buffer>(size_t bytes)> allocate_shared) {
  return std::make_unique<HostDevice>(std::move(allocate_shared));
}

}  // namespace hp
