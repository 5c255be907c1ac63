#pragma once

#include "proto/control.pb.h"

namespace hp {

/// Lines of each kind, of progress and of all others (warnings, errors, orders), that TrimLines leaves.
inline constexpr int kMostLinesOfAKind = 60;

/// Removes lines beyond kMostLinesOfAKind: each time the oldest one of the node that has most of them, so that a node
/// that logs a lot does not displace the lines of others.
void TrimLines(google::protobuf::RepeatedPtrField<LoggedLine>* lines);

}  // namespace hp
