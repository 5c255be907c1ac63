#pragma once

#include <string_view>

namespace google::protobuf {
class MessageLite;
}

namespace hp {

/// Parses a message that somebody sent. Protobuf writes its own opinion of some bytes (text that is not UTF-8) to
/// stderr; not here, where strangers could fill the log with it. Any thread.
/// @return false: the bytes are no such message, or over 2 GiB; then its contents are undefined.
bool ParseMessage(std::string_view bytes, google::protobuf::MessageLite* message);

}  // namespace hp
