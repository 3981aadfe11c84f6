// Measures requests, and delays answers until the state in them is durable.
#pragma once

#include <memory>

#include "daemon/head/requests/route.hpp"
#include "daemon/metrics/metrics.hpp"

namespace rtrain::head {

std::shared_ptr<net::Responder> timed(Durability durability, metrics::Metrics& metrics,
                                      std::shared_ptr<net::Responder> responder, const Route& route);

}  // namespace rtrain::head
