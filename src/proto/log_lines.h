#pragma once

#include "proto/control.pb.h"

namespace hp {

/// Lines of each kind, of progress and of all others (warnings, errors, orders), that KeepLine keeps.
inline constexpr int kMostLinesOfAKind = 60;

/// Adds a line behind the others. Of more than kMostLinesOfAKind the oldest one goes of the node that has most of them,
/// so that a node which says much leaves those of the others. Takes time by the number of lines.
void KeepLine(const LoggedLine& line, google::protobuf::RepeatedPtrField<LoggedLine>* lines);

}  // namespace hp
