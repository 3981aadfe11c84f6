// Whether a machine answers at a port: with a connection or its refusal, or not at all within the patience.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/net/loop/loop.hpp"

namespace rtrain::net {

// `not_dialled`: this machine could not ask (no route, no address of that name).
enum class PortAnswer { answered, silent, not_dialled };
void dial_port(Loop& loop, const std::string& host, std::uint16_t port, std::int64_t patience_ms,
               std::function<void(PortAnswer)> done);
// The same over a loop of its owner's choice.
using DialPort = std::function<void(const std::string& host, std::uint16_t port, std::int64_t patience_ms,
                                    std::function<void(PortAnswer)> done)>;

}  // namespace rtrain::net
