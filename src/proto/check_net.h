#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <string>

namespace hp {

/// Checks what holds for any net, whatever its layers do: it has layers, each has a type, and no layer
/// has both include and exclude rules.
/// @param path of the file, for messages about layers without a place of their own.
/// @return kInvalidArgument: the first fault, as "PATH:LINE: what; expected ...".
Status CheckNet(const caffe::NetParameter& net, const std::string& path);

}  // namespace hp
