#include "scheduler/plan/job_precision.h"

#include "devices/devices.h"

namespace hp {

StatusOr<NodeDevice> OpenDeviceAlone(const std::string& name, Precision precision) {
  // Not its backend yet, whose precision what it lacks decides.
  HP_ASSIGN_OR_RETURN(NodeDevice device, OpenNodeDevice(name, RoutingTableConfig::AUTO));
  HP_ASSIGN_OR_RETURN(precision, PrecisionAlone(precision, name, device.lacks_bfloat16));
  HP_ASSIGN_OR_RETURN(device.backend, device.make_backend(precision));
  return device;
}

}  // namespace hp
