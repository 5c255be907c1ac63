#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <vector>

namespace hp {

/// Whether two layers compute the same of the same inputs; how their parameters begin and learn is not looked at, nor
/// which phases and states they are in.
bool ComputeAlike(const caffe::LayerParameter& a, const caffe::LayerParameter& b);

/// Adds to a net what a solver's further tests read: a layer without bottoms that is another one than in the first test
/// gets the stage of its test (StageOfTest), and that of the first test is excluded from this stage.
/// @param tests the nets of all tests, each with the layers of its own state only.
/// @param net has the layers of training and of tests[0].
/// @return kInvalidArgument: a test has other layers than tests[0] beside these.
Status AddTests(const std::vector<caffe::NetParameter>& tests, caffe::NetParameter* net);

}  // namespace hp
