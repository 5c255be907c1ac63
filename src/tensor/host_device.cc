#include "tensor/device.h"

#include <cstring>

namespace hp {
namespace {

class HostDevice : public Device {
 public:
  std::string name() const override { return "cpu"; }
  bool is_host() const override { return true; }
  size_t free_bytes() const override { return 0; }
  StatusOr<Buffer> Allocate(size_t bytes) override { return Buffer::Allocate(bytes); }
  StatusOr<Buffer> AllocateHost(size_t bytes) override { return Buffer::Allocate(bytes); }
  void Upload(Queue queue, void* to, const void* from, size_t bytes) override { Copy(queue, to, from, bytes); }
  void Download(Queue queue, void* to, const void* from, size_t bytes) override { Copy(queue, to, from, bytes); }
  void Copy(Queue, void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Order(Queue, Queue) override {}
  Mark Record(Queue) override { return 0; }
  Status Wait(Mark) override { return OkStatus(); }
  Status Synchronize() override { return OkStatus(); }
  void RunCaptured(const CaptureKey&, const std::function<void()>& work) override { work(); }
};

}  // namespace

std::unique_ptr<Device> MakeHostDevice() { return std::make_unique<HostDevice>(); }

}  // namespace hp
