#include "scheduler/plan/table_places.h"

#include "devices/devices.h"

namespace hp {

// Stands in for cuda_devices.cc where hpnode is built without CUDA.

StatusOr<NodeDevice> OpenNodeDevice(const std::string& name, Precision precision, EngineChoices* /*engines*/) {
  if (name == "cpu") return OpenCpu(precision);
  if (!IsDeviceName(name)) return NoSuchDeviceName(name);
  return FailedPrecondition("device %s: this hpnode was built without CUDA", name.c_str());
}

void PrepareSumsOnGpus() {}

Status CheckJpegDecoder() { return FailedPrecondition("this hpnode was built without CUDA"); }

StatusOr<int> CountGpus() { return FailedPrecondition("no GPU: this hpnode was built without CUDA"); }

std::string DescribeDevices() { return DescribeCpu() + "no GPU: this hpnode was built without CUDA\n"; }

}  // namespace hp
