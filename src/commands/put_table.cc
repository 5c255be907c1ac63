#include "commands/put_table.h"

#include "base/job_token.h"
#include "base/pending_file.h"
#include "commands/run_store.h"

#include "rendezvous/store_rendezvous.h"

#include <optional>

namespace hp {

Status PutTableAt(const std::string& out, const RoutingTableConfig& config, const std::string& text,
                  const std::string& run_id, const std::string& token_file) {
  HP_ASSIGN_OR_RETURN(const RoutingAddress address, ParseRoutingAddress(out));
  if (address.kind == RoutingAddress::Kind::kServer) {
    return InvalidArgument("--out=%s: hpserver makes its own tables", out.c_str());
  }
  if (address.kind == RoutingAddress::Kind::kFile) return WriteWholeFile(out, text);
  std::optional<JobKeys> keys;
  if (!token_file.empty()) {
    HP_ASSIGN_OR_RETURN(keys, ReadJobKeys(token_file));
    if (!keys->node) return InvalidArgument("%s is a read key; a table needs the job's token", token_file.c_str());
  }
  HP_ASSIGN_OR_RETURN(const RunStore opened, OpenRunStore(address, run_id, NewNonce()));
  return PutTable(opened.store.get(), opened.run, keys, config);
}

}  // namespace hp
