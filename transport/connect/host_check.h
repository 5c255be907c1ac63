#pragma once

#include "base/clock.h"
#include "transport/transport.h"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>

namespace hp {

/// Whether a connection comes from the host that the routing table gives a node: without a token nothing else tells a
/// node from a stranger that knows the table. Names are resolved beforehand, and again when an address does not fit,
/// since names may move. All addresses of one host count alike where that host is our own, loopback included. Hold it
/// by shared_ptr: pending look-ups keep it alive. Progress thread only; nothing blocks.
class HostCheck : public std::enable_shared_from_this<HostCheck> {
 public:
  enum class Answer {
    kYes,
    kNo,
    kAskAgain,  ///< the name is being looked up
  };

  /// @param io,clock outlive it.
  HostCheck(boost::asio::io_context* io, const Clock* clock) : resolver_(*io), clock_(clock) {}

  /// Begins to look up the host of node `rank`. @param host name or address.
  void Expect(Rank rank, const std::string& host);
  /// Whether `from` is an address of the host of `rank`. A node that is not expected is nowhere: kNo.
  Answer Belongs(Rank rank, const boost::asio::ip::address& from);
  /// The host's addresses as far as they are known, "10.0.0.1, 10.0.0.2", for messages.
  std::string AddressesOf(Rank rank) const;
  /// Ends all look-ups.
  void Stop() { resolver_.cancel(); }

 private:
  struct Host {
    std::string name;
    std::set<boost::asio::ip::address> addresses;
    bool fixed = false;        // an address was written, which never changes
    bool pending = false;      // a look-up is under way
    int64_t looked_up_ns = 0;  // end of the last one; 0: none has ended
  };
  void LookUp(Rank rank);

  boost::asio::ip::tcp::resolver resolver_;
  const Clock* const clock_;
  std::map<Rank, Host> hosts_;
};

}  // namespace hp
