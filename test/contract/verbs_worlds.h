#pragma once

#include "base/job_token.h"
#include "test/contract/fixtures.h"
#include "transport/verbs/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace hp {

/// Nodes with adapters of FakeVerbs. @param delayed requests arrive from a thread, in random order among queue pairs,
/// and nodes sleep as soon as they have nothing to do, so that every wait goes through a completion event. @param keys
/// the nodes meet over TLS; RDMA is in clear as ever.
TransportKind FakeVerbsKind(const std::string& name, bool delayed, const VerbsSettings& settings,
                            const std::optional<JobKeys>& keys = {});
/// Nodes with the RDMA devices of this host, in turn; without one, `missing` says so.
TransportKind RealVerbsKind(const std::string& name, const VerbsSettings& settings);
/// The IPv4 addresses of active RDMA ports of this host.
std::vector<std::string> RdmaAddresses();

}  // namespace hp
