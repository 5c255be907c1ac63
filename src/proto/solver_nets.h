#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <google/protobuf/text_format.h>

#include <string>

namespace hp {

/// Reads the nets that a solver names or has, and leaves `net` with the path of its file where that is all there is,
/// or else `net_param`: the nets of training and of all tests as one (UnionOf), whose layers say in which Phase they
/// are. States (train_state, test_state) are used up.
/// @return kInvalidArgument, kNotFound: not one net for training, nets that do not fit together, a state of the other
/// phase, a fault of a net.
/// Source of the rules: Caffe, src/caffe/solver.cpp, Solver::InitTrainNet and InitTestNets.
Status UniteNets(const std::string& path, const google::protobuf::TextFormat::ParseInfoTree& places,
                 caffe::SolverParameter* solver);

}  // namespace hp
