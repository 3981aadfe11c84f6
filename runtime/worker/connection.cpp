#include "runtime/worker/connection.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr auto refusal_patience = 10s;
constexpr auto welcome_patience = 30s;  // A stopped agent may hold many connections.

}  // namespace

void Connection::read(const std::function<void(FromAgent)>& on_message) {
    if (!link_.open()) return;
    link_.read(on_message);
    if (!link_.open()) lost();
}

void Connection::close_all() {
    link_.close();
    greeting_.close();
}

void Connection::lost() {
    if (!lost_at_) lost_at_ = Clock::now();
}

std::string Connection::greet(const std::string& socket, const Hello& hello) {
    dialled_ = Clock::now();
    if (std::string why = greeting_.connect(socket); !why.empty()) return why;
    greeting_.send(encode(FromWorker{hello}));
    return {};
}

void Connection::wait_for_answer(std::chrono::milliseconds limit) const {
    greeting_.wait().until_ready(static_cast<int>(limit.count()));
}

bool Connection::read_answer(std::vector<FromAgent>& messages) {
    greeting_.read([&](FromAgent message) { messages.push_back(std::move(message)); });
    const bool welcome = std::any_of(messages.begin(), messages.end(),
                                     [](const FromAgent& message) { return std::holds_alternative<Welcome>(message); });
    if (welcome) link_.swap(greeting_);
    return welcome;
}

void Connection::answered() {
    greeting_.close();
    dialled_ = Clock::now();
}

void Connection::welcomed() {
    lost_at_.reset();
    was_welcomed_ = true;
}

bool Connection::is_in_vain() const {
    return !greeting_.open() || !refused_.empty() || Clock::now() - dialled_ > welcome_patience;
}

bool Connection::is_time_to_dial() const { return greeting_.open() || Clock::now() - dialled_ >= redial_every; }

std::string Connection::give_up() {
    std::string why = greeting_.open() ? "it does not answer" : greeting_.why_closed();
    greeting_.close();
    // An agent that has just restarted may not have found its workers yet, so its first refusals are not final.
    if (!refused_.empty() && was_welcomed_ && lost_at_ && Clock::now() - *lost_at_ < refusal_patience)
        why = "it refused: " + std::exchange(refused_, {});
    return why;
}

}  // namespace rtrain::worker
