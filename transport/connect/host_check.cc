#include "transport/connect/host_check.h"

#include "base/host.h"

#include <boost/asio/ip/address_v6.hpp>

#include <algorithm>
#include <vector>

namespace hp {
namespace {

namespace ip = boost::asio::ip;

// How old an answer of the name server may be that turns somebody away.
constexpr int64_t kFreshNs = kNsPerSecond;

/// IPv4 addresses that a socket of IPv6 shows as ::ffff:10.0.0.1, and link-local ones without their interface.
ip::address Plain(const ip::address& address) {
  if (!address.is_v6()) return address;
  ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, v6);
  v6.scope_id(0);
  return v6;
}

bool IsOwn(const ip::address& address) {
  if (address.is_loopback()) return true;
  const std::vector<std::string> own = OwnAddresses();
  return std::any_of(own.begin(), own.end(), [&address](const std::string& text) {
    boost::system::error_code error;
    const ip::address one = ip::make_address(text, error);
    return !error && Plain(one) == address;
  });
}

}  // namespace

void HostCheck::Expect(Rank rank, const std::string& host) {
  Host& entry = hosts_[rank];
  entry.name = host;
  boost::system::error_code is_name;
  const ip::address address = ip::make_address(host, is_name);
  entry.fixed = !is_name;
  if (entry.fixed) {
    entry.addresses = {Plain(address)};
  } else {
    LookUp(rank);
  }
}

void HostCheck::LookUp(Rank rank) {
  Host& entry = hosts_[rank];
  entry.pending = true;
  resolver_.async_resolve(entry.name, "", [self = shared_from_this(), rank](const auto& error, const auto& results) {
    Host& host = self->hosts_[rank];
    host.pending = false;
    host.looked_up_ns = self->clock_->NowNs();
    if (error) return;  // what was known before stays
    host.addresses.clear();
    for (const auto& result : results) host.addresses.insert(Plain(result.endpoint().address()));
  });
}

HostCheck::Answer HostCheck::Belongs(Rank rank, const ip::address& from) {
  const auto found = hosts_.find(rank);
  if (found == hosts_.end()) return Answer::kNo;
  Host& host = found->second;
  const ip::address plain = Plain(from);
  if (host.addresses.contains(plain)) return Answer::kYes;
  if (IsOwn(plain) && std::any_of(host.addresses.begin(), host.addresses.end(), IsOwn)) return Answer::kYes;
  if (host.fixed) return Answer::kNo;
  if (host.pending) return Answer::kAskAgain;
  if (!host.addresses.empty() && clock_->NowNs() - host.looked_up_ns < kFreshNs) return Answer::kNo;
  LookUp(rank);
  return Answer::kAskAgain;
}

std::string HostCheck::AddressesOf(Rank rank) const {
  std::string text;
  const auto found = hosts_.find(rank);
  if (found == hosts_.end()) return text;
  for (const ip::address& address : found->second.addresses) text += (text.empty() ? "" : ", ") + address.to_string();
  return text;
}

}  // namespace hp
