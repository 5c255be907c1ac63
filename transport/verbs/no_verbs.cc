// In place of everything that needs libibverbs and librdmacm, where one of them was not found at build time.
#include "transport/verbs/doctor.h"
#include "transport/verbs/link.h"
#include "transport/verbs/verbs_transport.h"

namespace hp {

StatusOr<std::unique_ptr<VerbsHost>> OpenVerbsHost(const VerbsOptions&) {
  return FailedPrecondition("this build has no RDMA: install libibverbs-dev and librdmacm-dev and build again");
}

std::vector<Finding> ExamineRdma(const VerbsSettings&, const std::string&, const std::string&, Verbs*) {
  return {{false, "this build has no RDMA", "install libibverbs-dev and librdmacm-dev and build again"}};
}

}  // namespace hp
