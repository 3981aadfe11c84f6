#include "runtime/worker/rank/requests.hpp"

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr auto stop_grace = 1s;  // an answer that was already sent when the stop arrives still counts

}  // namespace

void AgentRequests::on_message(const Wanted& request, Clock::time_point now) {
    wanted_ = static_cast<int>(request.what);
    last_ = request;
    if (request.what == Wish::stop && !stop_requested_) stop_requested_ = now;
}

void AgentRequests::checkpoint_reported() {
    if (wanted_ == static_cast<int>(Wish::checkpoint)) wanted_ = 0;
}

bool AgentRequests::stop_is_overdue(Clock::time_point now) const {
    return stop_requested_ && now - *stop_requested_ > stop_grace;
}

std::string AgentRequests::json(int what) const {
    if (what == 0) return "";
    const bool checkpoint = what == static_cast<int>(Wish::checkpoint);
    std::string text = std::string(R"({"what":")") + (checkpoint ? "checkpoint" : "stop") + '"';
    if (checkpoint && !last_.reason.empty()) text += R"(,"reason":")" + last_.reason + '"';
    if (checkpoint && last_.deadline_wall_ms != 0)
        text += R"(,"deadline_wall_ms":)" + std::to_string(last_.deadline_wall_ms);
    if (checkpoint && last_.workers != 0) text += R"(,"workers":)" + std::to_string(last_.workers);
    return text + '}';
}

}  // namespace rtrain::worker
