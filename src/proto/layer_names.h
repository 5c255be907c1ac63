#pragma once

#include "proto/caffe.pb.h"

#include <functional>
#include <string>
#include <vector>

namespace hp {

/// `name`, or where that is taken "name#2", "name#3" and so on.
std::string DistinctName(const std::string& name, const std::function<bool(const std::string&)>& is_taken);

/// Gives layers of one name in one phase names of their own, as Caffe does not: the second "relu1" becomes "relu1#2",
/// the third "relu1#3". Layers that never are in one phase together may share a name, and so their parameters. One
/// without a name is called after its type, "ReLU", "ReLU#2" and so on. By name layers have their initial values,
/// random numbers and trained weights, so two of one name would be one there.
void NameLayersApart(caffe::NetParameter* net);

/// The names that the layers of one phase had before NameLayersApart, by index: "relu1" of a "relu1#2" behind a layer
/// "relu1". Naming them apart gives the net's own names again; who writes "relu1#2" behind "relu1" himself has the
/// same.
std::vector<std::string> GivenNames(const caffe::NetParameter& net);

}  // namespace hp
