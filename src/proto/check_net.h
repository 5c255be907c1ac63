#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <functional>
#include <string>

namespace hp {

/// Checks what holds for any net, whatever its layers do: it has layers, each has a type, and no layer
/// has both include and exclude rules.
/// @param path of the file, for messages. @param line_of the line, from 1, where layer `layer` begins; null: unknown.
/// @return kInvalidArgument: the first fault, as "PATH:LINE: what; expected ...".
Status CheckNet(const caffe::NetParameter& net, const std::string& path, const std::function<int(int layer)>& line_of);

}  // namespace hp
