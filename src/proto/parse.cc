#include "proto/parse.h"

#include "google/protobuf/message_lite.h"
#include "google/protobuf/stubs/logging.h"

#include <climits>

namespace hp {

bool ParseMessage(std::string_view bytes, google::protobuf::MessageLite* message) {
  const google::protobuf::LogSilencer quiet;
  return bytes.size() <= INT_MAX && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace hp
