// Returns the network that an address belongs to, as far as the address shows it.
#pragma once

#include <string>

namespace rtrain::net {

// Returns an IPv4 address unchanged, and the network of an IPv6 address ("2001:db8::/64"): a user with one of its 2^64
// addresses has all of them.
std::string network_of(const std::string& address);

}  // namespace rtrain::net
