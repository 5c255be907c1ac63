#include "backend/cpu/onednn.h"

#include "devices/devices.h"

namespace hp {

std::string InstructionSet() { return onednn::DescribeInstructions(); }

}  // namespace hp
