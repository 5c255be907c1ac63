#include "commands/run_store.h"

#include "base/environment.h"

#include "rendezvous/folder_store.h"
#include "rendezvous/run_id.h"
#ifdef HP_WITH_REDIS
#include "rendezvous/redis_store.h"
#endif

namespace hp {

StatusOr<RunStore> OpenRunStore(const RoutingAddress& address, const std::string& run_id, const std::string& self) {
  if (!run_id.empty() && !address.run_id.empty() && run_id != address.run_id) {
    return InvalidArgument("--run_id is \"%s\", and --routing has the run \"%s\"", run_id.c_str(),
                           address.run_id.c_str());
  }
  RunStore opened;
  HP_ASSIGN_OR_RETURN(opened.run, RunIdFor(run_id.empty() ? address.run_id : run_id, &Environment));
  if (opened.run.empty()) {
    return InvalidArgument("--run_id=ID is missing: all nodes of a run give the same, and another run another one");
  }
  if (address.kind == RoutingAddress::Kind::kFolder) {
    HP_ASSIGN_OR_RETURN(opened.store, FolderStore::Open(address.path + "/" + opened.run, self));
    return opened;
  }
#ifdef HP_WITH_REDIS
  opened.store = std::make_unique<RedisStore>(address.host, address.port, opened.run, Environment("REDISCLI_AUTH"));
  return opened;
#else
  return InvalidArgument("this build has no Redis client (libhiredis-dev)");
#endif
}

}  // namespace hp
