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

/// Whether the names of a net's layers can stand in an HDF5 file, where a name is a path of groups, of which there is
/// one. @param net with the layers of one phase, named apart (layer_names.h). @param layers those with parameters.
/// @param expected what a message says is.
/// @return kInvalidArgument, beginning with the layer: another one has its name or is where its blobs are, or the name
/// is no path.
Status CheckHdf5Names(const caffe::NetParameter& net, const std::set<std::string>& layers, const std::string& expected);

/// The same for the snapshots that a solver asks for, before training begins: a .caffemodel takes any names.
/// @param bytes of all parameters of the net. @param net of training.
Status CheckSnapshotNames(const caffe::SolverParameter& solver, int64_t bytes, const caffe::NetParameter& net,
                          const std::set<std::string>& layers);

}  // namespace hp
