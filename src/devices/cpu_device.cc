#include "base/cores.h"
#include "base/format.h"
#include "scheduler/plan/routing_table.h"

#include "devices/devices.h"
#include "devices/host_copier.h"

namespace hp {

NodeDevice OpenCpu(Precision precision) {
  NodeDevice cpu;
  cpu.device = MakeHostDevice();
  cpu.make_backend = [](Precision decided) { return MakeCpuBackend(ElementOf(decided)); };
  if (precision != RoutingTableConfig::AUTO) cpu.backend = MakeCpuBackend(ElementOf(precision));
  cpu.lacks_bfloat16 = CpuLacksBFloat16();
  return cpu;
}

void ShareHostMemory(NodeDevice* cpu) {
  auto copier = std::make_unique<HostCopier>(ThisPlace());
  cpu->device = MakeHostDevice([host = copier.get()](size_t bytes) { return host->Allocate(bytes); });
  cpu->copier = std::move(copier);
}

std::string DescribeCpu() {
  return Format("cpu     %d cores, %s, precision FP32%s\n", AvailableCores(), InstructionSet().c_str(),
                CpuMultipliesBFloat16() ? " or BF16" : "");
}

}  // namespace hp
