// Checks whether a machine answers at a port within the patience: with a connection, with a refusal, or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/net/loop/loop.hpp"

namespace rtrain::net {

// `not_dialled`: this machine cannot connect at all (no route, no address of that name).
enum class PortAnswer { answered, silent, not_dialled };
void dial_port(Loop& loop, const std::string& host, std::uint16_t port, std::int64_t patience_ms,
               std::function<void(PortAnswer)> done);
// Does the same on a loop that the caller chooses.
using DialPort = std::function<void(const std::string& host, std::uint16_t port, std::int64_t patience_ms,
                                    std::function<void(PortAnswer)> done)>;

}  // namespace rtrain::net
