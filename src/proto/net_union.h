#pragma once

#include "proto/caffe.pb.h"

#include <vector>

namespace hp {

/// Whether two layers compute the same of the same inputs; how their parameters begin and learn is not looked at, nor
/// which phases and states they are in.
bool ComputeAlike(const caffe::LayerParameter& a, const caffe::LayerParameter& b);

/// The nets of a job as one, from which FilterNet takes each of them again by its Phase. A layer that several of them
/// have (ComputeAlike, one name) is one, as the first of them has it; the order is that of each. Layers of one name
/// that compute different things stand beside each other, and have the same parameters by that name. A layer that
/// stands in another order in a test than in training is there twice, likewise: a table that cuts the net between the
/// two places it on two stages, and is refused.
/// @param train has what is not of its layers, too. @param tests each with the layers of its own state only.
caffe::NetParameter UnionOf(const caffe::NetParameter& train, const std::vector<caffe::NetParameter>& tests);

}  // namespace hp
