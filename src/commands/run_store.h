#pragma once

#include "hp/status.h"

#include "rendezvous/address.h"
#include "rendezvous/store.h"

#include <memory>
#include <string>

namespace hp {

/// A run's place in a store without a server of ours.
struct RunStore {
  std::string run;  ///< the run id
  std::unique_ptr<RendezvousStore> store;
};

/// Opens the run of a dir:// or redis:// address. The run id is --run_id, that of the address, or the scheduler's; the
/// password of Redis is REDISCLI_AUTH in the environment.
/// @param self nonce of this process.
/// @return kInvalidArgument: there is no run id, or two; this build has no Redis; FolderStore::Open's.
StatusOr<RunStore> OpenRunStore(const RoutingAddress& address, const std::string& run_id, const std::string& self);

}  // namespace hp
