#include "http/http_server.h"

namespace hp {

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(const std::string& flag, const std::string&,
                                                       std::map<std::string, HttpPage>) {
  return FailedPrecondition("--%s: built without cpp-httplib (libcpp-httplib-dev)", flag.c_str());
}

}  // namespace hp
