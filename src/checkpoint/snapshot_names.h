#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <cstdint>
#include <set>
#include <string>

namespace hp {

/// Names of the layers that have parameters. @param params a range of what has a `layer`.
template <typename Params>
std::set<std::string> LayersWith(const Params& params) {
  std::set<std::string> layers;
  for (const auto& param : params) layers.insert(param.layer);
  return layers;
}

/// Whether the names of a net's layers can stand in the snapshots that a solver asks for, before training begins. A
/// .caffemodel takes any; in an HDF5 file a name is a path of groups, of which there is one.
/// @param bytes of all parameters of the net. @param net the training net, its layers named apart (layer_names.h).
/// @param layers those with parameters.
/// @return kInvalidArgument, beginning with the layer: another one has its name or is where its blobs are, or the name
/// is no path.
Status CheckSnapshotNames(const caffe::SolverParameter& solver, int64_t bytes, const caffe::NetParameter& net,
                          const std::set<std::string>& layers);

}  // namespace hp
