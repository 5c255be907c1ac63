#pragma once

#include "hp/status.h"
#include "proto/routing.pb.h"

#include <string>

namespace hp {

/// Writes a table where hproute --out says: a file, or for whoever asks the run of a dir:// or redis:// address.
/// @param text of the file. @param run_id,token_file matter for the latter.
/// @return kFailedPrecondition: the run has a table already; else the errors of WriteWholeFile or OpenRunStore.
Status PutTableAt(const std::string& out, const RoutingTableConfig& config, const std::string& text,
                  const std::string& run_id, const std::string& token_file);

}  // namespace hp
