#pragma once

#include "hp/status.h"
#include "scheduler/plan/job_plan.h"

#include <functional>
#include <string>

namespace hp {

/// In what the products of a job are computed whose table says AUTO: BF16 if each node can do it whose products that
/// would round, else FP32. The same on all nodes.
/// @param lacks_bfloat16 whether the device of a node cannot do it.
RoutingTableConfig::Precision ChoosePrecision(const JobPlan& job, const std::function<bool(Rank)>& lacks_bfloat16);

/// Whether node `rank` can compute so.
/// @param precision not AUTO; BF16 where the table says AUTO: a snapshot decided it. @param lacks_bfloat16 why its
/// device cannot do BF16 ("the processors have no AMX"); empty: it can.
/// @return kInvalidArgument: the node, a layer whose products would be rounded, why not, and what can be done.
Status CheckPrecision(const JobPlan& job, Rank rank, RoutingTableConfig::Precision precision,
                      const std::string& lacks_bfloat16);

/// The same for a program that is no node: what `wanted` is for a device alone. AUTO is BF16 if it can do it, else
/// FP32.
/// @param device as in a table: "cpu".
/// @return kInvalidArgument: BF16, and it cannot, with the reason and what it can.
StatusOr<RoutingTableConfig::Precision> PrecisionAlone(RoutingTableConfig::Precision wanted, const std::string& device,
                                                       const std::string& lacks_bfloat16);

}  // namespace hp
