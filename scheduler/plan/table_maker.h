#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"

#include <string>
#include <vector>

namespace hp {

/// What a user says about the table he wants; hproute's flags.
struct TableRequest {
  std::string solver;              ///< as it shall stand in the table
  int conv = 1;                    ///< replicas of the conv stage
  std::vector<int> fc;             ///< shards of each FC stage; empty: no FC stage
  std::vector<std::string> hosts;  ///< see PlacesOf; of the nodes in their order, used again when they run out
  int port = 29500;                ///< of a host's first node; the others count up from it
  int micro_batches = 0;           ///< 0: chosen by samples per replica
  std::vector<std::string> cut;    ///< first layer of each FC stage; empty: chosen
  bool per_replica = false;        ///< batch_size is each replica's
  std::string job;                 ///< empty: the default
};

/// Makes a table for `net`. The first FC stage begins at the first InnerProduct behind all convolutions, further ones
/// at later InnerProducts, of which each stage gets about as many.
/// @return kInvalidArgument: the request does not fit the net.
StatusOr<RoutingTableConfig> MakeTable(const TableRequest& request, const caffe::NetParameter& net);

/// The table as readable text, `comment` (lines) on top.
std::string TableText(const RoutingTableConfig& config, const std::string& comment);

/// Who runs what, a line for each stage and node.
std::string DescribeTable(const RoutingTableConfig& config, const caffe::NetParameter& net);

}  // namespace hp
