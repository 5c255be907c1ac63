#include "devices/devices.h"

namespace hp {

StatusOr<NodeDevice> OpenDeviceAlone(const std::string& name, Precision precision) {
  HP_ASSIGN_OR_RETURN(NodeDevice device, OpenNodeDevice(name, precision));
  if (precision == RoutingTableConfig::BF16 && !device.lacks_bfloat16.empty()) {
    return InvalidArgument("device \"%s\" can't compute with precision: BF16: %s; it can with FP32", name.c_str(),
                           device.lacks_bfloat16.c_str());
  }
  if (device.backend == nullptr) {
    HP_ASSIGN_OR_RETURN(device.backend, device.make_backend(PrecisionOfDevice(device)));
  }
  return device;
}

}  // namespace hp
