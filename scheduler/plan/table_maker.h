#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"

#include <string>
#include <vector>

namespace hp {

/// What a user asks of a new table: hproute's flags.
struct TableRequest {
  std::string solver;              ///< path of the solver file, as it is to stand in the table
  std::vector<int> conv = {1};     ///< replicas of each conv stage, at least one stage with one replica
  std::vector<int> fc;             ///< shards of each FC stage, at least 1 each; empty: no FC stage
  int ps = 0;                      ///< parameter servers of the one conv stage; 0: its replicas sum among themselves
  std::vector<std::string> hosts;  ///< entries as PlacesOf reads them, at least one; nodes take the places in turn
  int port = 29500;                ///< of a host's first node; the others count up from it
  int micro_batches = 0;           ///< of a replica's share of a batch; 0: chosen, 1 to 4 of 8 samples or more
  std::vector<std::string> cut;    ///< name of the first layer of each stage behind the first; empty: chosen
  std::vector<std::string> split;  ///< "LAYER:BY", BY as in the table: OUTPUTS, INPUTS or NONE
  std::vector<int> shares;         ///< of a batch, of each node of the first conv stage; empty: all alike
  bool side_classifiers = false;   ///< the first FC stage also has the FC layers of side classifiers in front of it
  bool scattered = false;          ///< FC stages get slices of what comes in, and gather them
  /// Shard i lies on the node of conv node i; those beyond have nodes of their own. With one conv stage.
  bool beside = false;
  bool per_replica = false;  ///< the net's batch_size is each replica's, not that of all together
  int staleness = 0;         ///< RoutingTableConfig::staleness
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32, wire_precision = RoutingTableConfig::FP32;
  RoutingTableConfig::ConvolutionEngines convolution_engines = RoutingTableConfig::HEURISTIC;
  RoutingTableConfig::JpegDecoder jpeg_decoder = RoutingTableConfig::HOST;
  bool tls = false;  ///< connections are encrypted
  std::string job;   ///< empty: the default of RoutingTableConfig
};

/// Makes a table for `net`: the nodes of the conv stages first, then those of each FC stage, then the parameter
/// servers. Unless `cut` says otherwise, the first FC stage begins at the first InnerProduct behind the last other
/// layer with parameters, further ones at later InnerProducts, of which each stage gets about as many. Where branches
/// with InnerProducts of their own come together behind it, or share these parameters, a single FC stage names the
/// layers of all of them. Several conv stages need a `cut`.
/// @return a table without faults of structure, and that fits `net`; host names are not looked up. kInvalidArgument:
/// the request is out of range or does not fit the net; the message names the flag, or lists the faults.
StatusOr<RoutingTableConfig> MakeTable(const TableRequest& request, const caffe::NetParameter& net);

/// The table as a commented text file that RoutingTable::Load reads.
/// @param comment lines to put on top, without "#".
std::string TableText(const RoutingTableConfig& config, const std::string& comment);

/// A summary for a terminal: a line for each stage that has layers of the net, each of its nodes, and the batch.
std::string DescribeTable(const RoutingTableConfig& config, const caffe::NetParameter& net);

}  // namespace hp
