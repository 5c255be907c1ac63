#include "base/cores.h"
#include "base/format.h"
#include "scheduler/plan/table_places.h"

#include "devices/devices.h"

namespace hp {

// Stands in for cuda_devices.cc where hpnode is built without CUDA.

StatusOr<NodeDevice> OpenNodeDevice(const std::string& name, Precision) {
  if (name == "cpu") return NodeDevice{MakeHostDevice(), MakeCpuBackend(), nullptr, nullptr, nullptr};
  if (!IsDeviceName(name)) return NoSuchDeviceName(name);
  return FailedPrecondition("device %s: this hpnode was built without CUDA", name.c_str());
}

StatusOr<int> CountGpus() { return FailedPrecondition("no GPU: this hpnode was built without CUDA"); }

std::string DescribeDevices() {
  return Format("cpu     %d cores\nno GPU: this hpnode was built without CUDA\n", AvailableCores());
}

}  // namespace hp
