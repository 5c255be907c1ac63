#pragma once

#include "net/plan/node_plan.h"

#include <cstdint>
#include <vector>

namespace hp {

/// A parameter of a conv stage whose replicas learn it by parameter servers, and which server has which rows of it.
struct ServedParam {
  struct Slice {
    int server = 0;       ///< index in the server stage
    Block block;          ///< whole rows, not empty
    uint32_t number = 0;  ///< among the slices of all parameters, in their order
  };
  ParamPlan param;            ///< as each replica has it: the whole blob
  std::vector<Slice> slices;  ///< together the whole blob, in the order of servers
};

/// The parameters that learn on a replica, in the order of ParamPlan, each cut into rows such that every server has
/// about as many bytes in all: server j of k has those between j/k and (j + 1)/k of all bytes, up to half a row. Frozen
/// ones are not served, nor those whose layers have no backward pass. A server may get none where there are few rows.
/// @param replica the training plan of a node of the stage.
std::vector<ServedParam> CutForServers(const NodePlan& replica, int stage, int servers);

/// What server `server` has of `params`, in their order: its NodePlan::Options::served.
std::vector<ParamPlan> PartOfServer(const std::vector<ServedParam>& params, int server);

}  // namespace hp
