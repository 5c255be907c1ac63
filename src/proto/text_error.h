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

}  // namespace hp
