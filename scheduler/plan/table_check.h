#pragma once

#include "base/rank.h"
#include "layers/traits/layer_types.h"
#include "net/plan/placement.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"

#include <functional>
#include <string>
#include <vector>

namespace hp {

// These functions list every fault of a routing table, not only the first, each as one line that names the entries and
// says what was expected. Faults that only follow from another one are left out. An empty result means that the table
// is sound. Any thread.

/// The largest numbers that a table may give a node: solvers of its pool, and MiB of memory (an address space, 2^47
/// bytes). Its threads are bounded by kMaxThreads (base/cores.h).
constexpr int64_t kMaxPoolSize = 65536, kMaxMemoryMb = int64_t{1} << 27;
/// The largest staleness: each step is a copy of all parameters.
constexpr int kMaxStaleness = 64;

/// Finds the addresses of a host name in a canonical form: two names of one host have an address in common. Empty: the
/// host is unknown. CanonicalAddresses (base/host.h) is one, and may ask a name server.
using HostResolver = std::function<std::vector<std::string>(const std::string& host)>;

/// What a node runs, as written: its own stage's part first.
std::vector<StagePart> PartsOf(const NodeConfig& node);

/// Faults that show in the table alone: settings of the job, nodes, stages, indices, hosts, ports and devices as
/// written.
std::vector<std::string> CheckStructure(const RoutingTableConfig& config);

/// Those of them that are of devices: GPUs of which two replicas would be on one, and settings of the job that the
/// nodes' devices don't go with. Nodes in stages that are not there are passed over.
std::vector<std::string> CheckDevices(const RoutingTableConfig& config);

/// Faults of host names: those without an address, loopback names in a table with other hosts, and nodes that share a
/// port of one host under different names of it.
/// @param resolve must not be null.
std::vector<std::string> CheckHosts(const RoutingTableConfig& config, const HostResolver& resolve);

/// The ranks of each host's nodes, in the order of the table. Names that have an address in common are one host; a name
/// that cannot be resolved is a host of its own. @param resolve must not be null.
std::vector<std::vector<Rank>> NodesByHost(const RoutingTableConfig& config, const HostResolver& resolve);

/// Faults that show only together with the net: stages that do not cover it, more micro-batches than samples, and so
/// on. The table must have a stage; other faults of its structure are tolerated, so this can run before they are
/// mended.
/// @param net the whole prototxt, with the layers of all phases; need not be valid.
/// @param types the known layer types; a layer of another type is no fault here (JobPlan refuses it).
std::vector<std::string> CheckNetFit(const RoutingTableConfig& config, const caffe::NetParameter& net,
                                     const LayerTypes& types = LayerTypes::BuiltIn());

/// Faults that show only together with the solver: more micro-batches in an update or a test than a MsgId can count.
std::vector<std::string> CheckSolverFit(const RoutingTableConfig& config, const caffe::SolverParameter& solver);

/// The faults of CheckStructure, CheckHosts and CheckNetFit together.
/// @param resolve null: hosts are not looked up.
std::vector<std::string> CheckTable(const RoutingTableConfig& config, const caffe::NetParameter& net,
                                    const HostResolver& resolve, const LayerTypes& types = LayerTypes::BuiltIn());

/// The stage of each layer, by index among the layers of the unfiltered net. A stage has the layers that it names, and
/// of its range those that no stage names. The range goes from the first layer named from_layer to the last one named
/// to_layer (a name may occur once in each phase); an empty one of them means the net's first or last layer. Layers in
/// no stage or in several, and names that the net does not have, are appended to `faults`; the result can be used only
/// if nothing was.
std::vector<int> AssignLayers(const RoutingTableConfig& config, const caffe::NetParameter& net,
                              std::vector<std::string>* faults);

/// Node `rank` for messages: "node "NAME"", or "node N" if the table gives it no name.
std::string NodeLabel(const RoutingTableConfig& config, int rank);
/// Stage `stage` likewise.
std::string StageLabel(const RoutingTableConfig& config, int stage);
/// The name of stage `stage` for messages: "stage N", N counted from 0, if the table gives it none.
std::string StageName(const RoutingTableConfig& config, int stage);
/// The first stage that is named `name`, which must not be empty; -1: there is none.
int FindStage(const RoutingTableConfig& config, const std::string& name);

}  // namespace hp
