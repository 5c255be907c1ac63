#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Where a solver's nets stand: in files, or in the solver's own.
struct NetPlaces {
  std::vector<std::string> files;  ///< of net, train_net, test_net, as far as they are set
  /// Of net_param, train_net_param, test_net_param. The trees are those of the solver's.
  std::vector<std::pair<const caffe::NetParameter*, const google::protobuf::TextFormat::ParseInfoTree*>> inside;
};

/// @param path of the solver's file. @param places of its fields; null: none are known.
/// Files that do not exist are left out.
NetPlaces PlacesOfNets(const std::string& path, const caffe::SolverParameter& solver,
                       const google::protobuf::TextFormat::ParseInfoTree* places);

/// Reads the nets that a solver names or has, and leaves `net` with the path of its file where that is all there is,
/// or else `net_param`: the nets of training and of all tests as one (UnionOf), whose layers say in which Phase they
/// are. States (train_state, test_state) are used up.
/// @return kInvalidArgument, kNotFound: not one net for training, nets that do not fit together, a fault of a net.
/// Source of the rules: Caffe, src/caffe/solver.cpp, Solver::InitTrainNet and InitTestNets.
Status UniteNets(const std::string& path, const google::protobuf::TextFormat::ParseInfoTree& places,
                 caffe::SolverParameter* solver);

}  // namespace hp
