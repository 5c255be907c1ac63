#pragma once

#include "hp/status.h"

#include <google/protobuf/descriptor.h>

#include <string>

namespace hp {

/// Turns an error of protobuf's text parser into one that names the place, what stands there and what was expected.
/// @param line, column where the parser reported `message`, from 0. It reports some faults one token late; the result
/// names the token that is wrong.
Status ExplainTextError(const std::string& text, const std::string& name, const google::protobuf::Descriptor& root,
                        int line, int column, const std::string& message);

/// Nets of before 2014 say "layers" with other fields inside: one message about that instead of one about their first
/// field. Ok for anything but a net or a solver.
Status RefuseOldLayers(const std::string& text, const std::string& name, const google::protobuf::Descriptor& root);

}  // namespace hp
