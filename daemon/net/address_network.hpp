// The network that an address belongs to, as far as the address tells.
#pragma once

#include <string>

namespace rtrain::net {

// Returns an IPv4 address as it is, of an IPv6 address its network ("2001:db8::/64"): whoever has one of its 2^64
// addresses has all of them.
std::string network_of(const std::string& address);

}  // namespace rtrain::net
