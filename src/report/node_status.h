#pragma once

#include "proto/control.pb.h"
#include "proto/wire.pb.h"
#include "report/gauge.h"
#include "report/reporter.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/plan/job_plan.h"
#include "scheduler/plan/routing_table.h"

#include <cstdint>
#include <string>

namespace hp {

/// A node's part of the job's status (hpctl) at a moment of its training. Any thread; reads this process's memory from
/// the system, which takes some microseconds.
/// @param at_ns since the start of training. @param reporter null: another node prints the losses.
NodeStatus MakeNodeStatus(int64_t at_ns, const NodeUse& use, const Pipeline::Load& load, const Reporter* reporter);

/// Adds the lines that this process logged behind line number `*sent` (LoggedText::number), each cut to what fits into
/// a report, and moves `*sent` behind them. Any thread.
void AddLogLines(int64_t* sent, NodeStatus* status);

/// Training samples of an iteration that a node computes.
int64_t RowsOf(const JobPlan& job, const RoutingTable& table, const NodeInfo& node);

/// "conv", "fc" or "ps", or several of them: what the parts of a node are.
std::string RolesOf(const RoutingTable& table, const NodeInfo& node);

/// What the log of a node says of one that all others wait for, and what to do about it.
/// @param self the node that logs it. @param slow names a node of the table.
std::string DescribeSlow(const RoutingTable& table, Rank self, const SlowNode& slow);

}  // namespace hp
