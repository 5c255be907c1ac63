#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <functional>
#include <string>

namespace hp {

/// What holds for any net, whatever its layers do; see ReadNet. Returns the first fault.
/// @param line_of the line, from 1, where a layer stands; null: unknown.
Status CheckNet(const caffe::NetParameter& net, const std::string& path, const std::function<int(int layer)>& line_of);

}  // namespace hp
