#pragma once

#include "hp/status.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace hp {

/// What a page says.
struct HttpAnswer {
  std::string type;                            ///< its Content-Type
  std::string body;                            ///< bytes as they are sent
  std::map<std::string, std::string> headers;  ///< further ones; a name once
};

/// Called for each question, on threads of the server, several at a time.
using HttpPage = std::function<HttpAnswer()>;

/// Shows a few pages over HTTP/1.1, on threads of its own, while it exists. It is read-only: GET and HEAD of the paths
/// that it was given are answered, all else is refused. It has no access control and no TLS: its address decides who
/// reads it. On a loopback address it refuses (421) requests whose Host header names anything but this host, so that no
/// web page elsewhere reads it through a browser of this host (host_header.h). A client that says nothing, or does not
/// read, is left after 5 s.
class HttpServer {
 public:
  /// @param address ADDRESS:PORT, as "127.0.0.1:9101" or "[::1]:9101".
  /// @param pages by path, as "/metrics"; not called after the server is destroyed.
  /// @return kInvalidArgument: another form of address; kFailedPrecondition: it can't be listened on, or this program
  /// was built without cpp-httplib. Messages begin with `flag`, which named the address.
  static StatusOr<std::unique_ptr<HttpServer>> Open(const std::string& flag, const std::string& address,
                                                    std::map<std::string, HttpPage> pages);
  /// Waits for answers under way.
  virtual ~HttpServer() = default;
};

}  // namespace hp
