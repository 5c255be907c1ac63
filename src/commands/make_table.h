#pragma once

#include "hp/status.h"
#include "input/input.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"
#include "scheduler/plan/table_maker.h"

#include <memory>
#include <string>
#include <vector>

namespace hp {

/// The solver as a table names it: relative to the table's folder, so that both can move together, or absolute.
/// @param solver as it can be opened. @param table a path, or an address such as dir:///shared/path.
std::string SolverFromTable(const std::string& solver, const std::string& table);

/// A table of the numbers of nodes that a user gave, and the net that it divides.
struct MadeTable {
  RoutingTableConfig config;
  std::string solver_path;  ///< as it can be opened
  caffe::SolverParameter solver;
  std::shared_ptr<const caffe::NetParameter> net;
  std::vector<std::string> warnings;  ///< of its hosts and files, as this host sees them, and of flags without effect
};

/// Reads solver and net, and makes the table that `hproute --conv --fc` asks for (MakeTable).
/// @param solver as it can be opened. @param hosts as --hosts says it: for those of a scheduler's tasks (AreJobHosts)
/// the request's are replaced, by as many as the table has nodes. @param port_given whether the request's port is the
/// user's; else the scheduler may have one.
/// @return kInvalidArgument, kNotFound: what is wrong with files, request, or the scheduler's hosts.
StatusOr<MadeTable> MakeTableOf(const std::string& solver, const std::string& hosts, bool port_given,
                                TableRequest* request);

/// Plans the job of a table, with all phases, as its nodes will: whether the layers fit each other and the table. Where
/// the data is not on this host and `sample` is empty, that is not known, and a warning of the table's says so.
/// @param sample,inputs as for SampleShapesOf. @return kInvalidArgument, kDataLoss: a node of the job would refuse it.
Status CheckMadeTable(const std::string& sample, const InputOptions& inputs, MadeTable* made);

}  // namespace hp
