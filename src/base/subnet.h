#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

// Numeric addresses and the networks that they are in, written as "10.0.0.0/8" or "fd00::/8". Pure but for
// PrefixLengthOf.

/// The bytes of a numeric address, 4 or 16; empty: it is none. The interface of a link-local one is left out.
std::vector<uint8_t> BytesOfAddress(const std::string& address);

/// Whether an address is in a network. Nothing is in what can't be read.
bool IsInSubnet(const std::string& address, const std::string& subnet);

/// The network that an address is in, in one spelling: "10.0.7.0/24" of "10.0.7.3" and 24.
/// @return empty: the address is not numeric, or has fewer bits.
std::string SubnetOf(const std::string& address, int prefix_length);

/// The bits of the network that this host's own numeric address is in, as its interface has it (getifaddrs); 0: it has
/// no such address.
int PrefixLengthOf(const std::string& own_address);

}  // namespace hp
