// What the head counts for /metrics while it works.
#pragma once

#include <memory>

#include "daemon/head/routes.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::head {

std::shared_ptr<net::Responder> timed(Head& head, std::shared_ptr<net::Responder> responder, const Route& route);
void count_placed(Head& head, const Attempt& attempt);               // a run's first attempt was placed
void count_silence(Head& head, const NodeId& node, double seconds);  // before a node counts as lost
void count_news(Head& head, const protocol::News& news);             // before the reports take it

}  // namespace rtrain::head
