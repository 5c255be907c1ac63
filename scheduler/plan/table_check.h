#pragma once

#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"

#include <functional>
#include <string>
#include <vector>

namespace hp {

// Every fault of a routing table, not only the first, each as one line that names the entries. Faults that would only
// follow from another one are left out.

/// The addresses of a host name in a canonical form, such that two names of one host share one; empty: unknown.
using HostResolver = std::function<std::vector<std::string>(const std::string& host)>;

/// Faults that show without the net: nodes, stages, indices, hosts and ports as written.
std::vector<std::string> CheckStructure(const RoutingTableConfig& config);

/// Hosts that can't be resolved, and nodes on one port of one host under different names.
std::vector<std::string> CheckHosts(const RoutingTableConfig& config, const HostResolver& resolve);

/// Faults that show beside the net: stages that don't tile it, an in-place pair that a boundary cuts, more
/// micro-batches than samples, more shards than outputs, ... The table must have a stage; other faults of its structure
/// do no harm.
/// @param types of the layers that the net may have; a layer of another type is not refused here.
std::vector<std::string> CheckNetFit(const RoutingTableConfig& config, const caffe::NetParameter& net,
                                     const LayerTypes& types = LayerTypes::BuiltIn());

/// Faults that show beside the solver: more micro-batches in an update or a test than an id can count.
std::vector<std::string> CheckSolverFit(const RoutingTableConfig& config, const caffe::SolverParameter& solver);

/// All of them but CheckSolverFit's.
/// @param resolve null: hosts are not looked up.
std::vector<std::string> CheckTable(const RoutingTableConfig& config, const caffe::NetParameter& net,
                                    const HostResolver& resolve, const LayerTypes& types = LayerTypes::BuiltIn());

/// The stage of each layer, by index in the unfiltered net; -1 where none or several have it, which adds to `faults`.
/// A stage goes from the first layer named from_layer to the last one named to_layer; a name may stand once per phase.
std::vector<int> AssignLayers(const RoutingTableConfig& config, const caffe::NetParameter& net,
                              std::vector<std::string>* faults);

/// The stage's name; "stage 1" if it has none.
std::string StageName(const RoutingTableConfig& config, int stage);

}  // namespace hp
