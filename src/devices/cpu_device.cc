#include "base/cores.h"
#include "base/format.h"
#include "scheduler/plan/routing_table.h"

#include "devices/devices.h"
#include "glog/logging.h"

namespace hp {

NodeDevice OpenCpu(Precision precision) {
  const ElementType factors = ElementOf(precision);
  if (factors != ElementType::kFloat32 && !CpuMultipliesBFloat16()) {
    LOG(WARNING) << "precision: BF16, but the processors of this host have no instructions for it (AVX512_BF16 or "
                    "AMX); they compute in float32, which is more precise and no faster than with precision: FP32 ("
                 << InstructionSet() << ")";
  }
  return NodeDevice{MakeHostDevice(), MakeCpuBackend(factors), nullptr, nullptr, nullptr};
}

std::string DescribeCpu() {
  return Format("cpu     %d cores, %s, precision FP32%s\n", AvailableCores(), InstructionSet().c_str(),
                CpuMultipliesBFloat16() ? " or BF16" : "");
}

}  // namespace hp
