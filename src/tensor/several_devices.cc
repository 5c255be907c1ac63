#include "tensor/several_devices.h"

namespace hp {
namespace {

std::shared_mutex* Launches() {
  static std::shared_mutex launches;
  return &launches;
}

}  // namespace

LaunchOnSeveralDevices::LaunchOnSeveralDevices() : lock_(*Launches()) {}

CallThatMayWaitForDevices::CallThatMayWaitForDevices() : lock_(*Launches()) {}

}  // namespace hp
