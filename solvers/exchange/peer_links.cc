#include "solvers/exchange/peer_links.h"

#include "glog/logging.h"

namespace hp {

void WarnOfPost(const Status& status) {
  if (!status.ok()) LOG(WARNING) << status;
}

}  // namespace hp
