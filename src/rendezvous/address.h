#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// What --routing names.
struct RoutingAddress {
  enum class Kind {
    kFile,    ///< `path`: a table
    kFolder,  ///< dir:///shared/path: `path`, in which each run has a folder
    kServer,  ///< tcp://host:port: hpserver
    kRedis,   ///< redis://host:port/RUN_ID
  };
  Kind kind = Kind::kFile;
  std::string path, host, run_id;
  int port = 0;
};

/// Reads --routing=TEXT. An IPv6 address stands in brackets. @return kInvalidArgument: it is of another form, which the
/// message shows.
StatusOr<RoutingAddress> ParseRoutingAddress(const std::string& text);

}  // namespace hp
