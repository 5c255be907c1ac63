#pragma once

#include "hp/status.h"

#include <google/protobuf/descriptor.h>

#include <string>

namespace hp {

/// Turns an error of protobuf's text parser into a message for people: the place, what was found, what was expected.
/// @param text the whole text. @param name of the file. @param root type of the message that was parsed.
/// @param line, column where the parser reported `message`, from 0. It reports some faults one token late; the result
/// names the token that is wrong.
/// @return kInvalidArgument always: "NAME:LINE:COLUMN: what; expected ...".
Status ExplainTextError(const std::string& text, const std::string& name, const google::protobuf::Descriptor& root,
                        int line, int column, const std::string& message);

/// Detects nets in the format of before 2014, which have "layers" with other fields inside, so that the user gets one
/// message about that instead of one about their first field.
/// @return kInvalidArgument: it is one; ok else, and for any `root` but a net or a solver.
Status RefuseOldLayers(const std::string& text, const std::string& name, const google::protobuf::Descriptor& root);

}  // namespace hp
