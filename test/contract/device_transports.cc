// The transports that need an RDMA device, in programs of their own: test/rdma-vm/run has two of software, in an
// emulated machine, where everything takes its time.
#include "test/contract/verbs_worlds.h"

#include <vector>

namespace hp {

int ShortDeadlineMs() { return 5000; }

std::vector<TransportKind> AllTransports() {
  return {
      RealVerbsKind("verbs", {.timeout = 16}),
      RealVerbsKind("verbs_4_data_qps",
                    {.timeout = 16, .qps_per_connection = 4, .split_bytes = 4096, .max_write_bytes = 100'000}),
      RealVerbsKind("verbs_rdmacm", {.timeout = 16, .qps_per_connection = 2, .setup = QpSetup::kRdmaCm}),
  };
}

}  // namespace hp
