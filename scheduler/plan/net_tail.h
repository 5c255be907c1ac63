#pragma once

#include "proto/caffe.pb.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace hp {

// Where FC stages may lie in a net, told from the unfiltered prototxt alone. Layers are given by index among its
// layers.

/// The layers that shards can divide (InnerProducts) behind the last layer with other parameters: where an FC stage may
/// begin.
std::vector<int> TailProducts(const caffe::NetParameter& net);
/// Behind which layer TailProducts looks, for messages ("after its last convolution"), and, where InnerProducts stand
/// before it, which --cut begins a stage with them.
std::string WhereTailBegins(const caffe::NetParameter& net);

/// The side classifiers' part that an FC stage which begins at layer `before` may have as well: InnerProducts in front
/// of it, and all that follows them, where that ends in front of it too and has no other parameters. Ascending indices.
std::vector<int> SideClassifiers(const caffe::NetParameter& net, int before);

/// The layers of an FC stage that has what lies behind the convolutions of several branches (siamese nets), where no
/// cut of the file's order has all of it. Empty: one does, or there is no such stage.
std::set<int> BranchesOfTail(const caffe::NetParameter& net);

/// Whether a layer that is `inside` has a parameter of a name that one that is not has too: stages share none.
bool DividesSharedNames(const caffe::NetParameter& net, const std::function<bool(int layer)>& inside);

}  // namespace hp
