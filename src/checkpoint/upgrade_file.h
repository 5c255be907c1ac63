#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// Writes a file of Caffe's in today's form: a net or a solver as text, or the weights of a .caffemodel. Which it is,
/// its contents say. Comments of a text are lost; weights keep their bits. What is in today's form already is written
/// as it is read. Any thread.
/// @param from,to may be one path: `to` is replaced whole or not at all.
/// @return what was done, in words, for a log line; kNotFound: no such file; kInvalidArgument: a fault in it, with its
/// line, what has no older form (HDF5), or `to` cannot be written; kDataLoss: no layer in it.
StatusOr<std::string> UpgradeFile(const std::string& from, const std::string& to);

}  // namespace hp
