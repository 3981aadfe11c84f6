#include "daemon/agent/preparation/setup_runner.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <system_error>
#include <utility>

#include "daemon/agent/base/limits.hpp"

namespace rtrain::agent {
namespace {

constexpr const char* not_begun = "was given up before it began";

std::int64_t clock_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

SetupRunner::~SetupRunner() {
    if (look_again_) background_.cancel(*look_again_);
    for (auto& [number, setup] : setups_) *setup.cancelled = true;
    for (auto& [number, setup] : setups_)
        if (setup.runs()) setup.thread.join();
}

void SetupRunner::run(SetupOrder order, Done done) {
    setups_.emplace(++last_, Setup{.order = std::move(order), .done = std::move(done)});
    next();
}

void SetupRunner::cancel(AttemptKey attempt) {
    for (auto& [number, setup] : setups_)
        if (setup.order.attempt == attempt && !setup.cancelled->exchange(true) && !setup.runs())
            finish(number, {.why = not_begun});
}

std::set<std::string> SetupRunner::busy_users() const {
    std::set<std::string> users;
    for (const auto& [number, setup] : setups_)
        if (setup.runs()) users.insert(setup.order.token_user);
    return users;
}

// Returns the number of setups that run and have not had their share of time.
std::size_t SetupRunner::within_share(std::int64_t now_ms) const {
    return static_cast<std::size_t>(std::count_if(setups_.begin(), setups_.end(), [&](const auto& entry) {
        return entry.second.runs() && now_ms - entry.second.begun_ms < shares_.share_ms;
    }));
}

void SetupRunner::next() {
    const std::int64_t now_ms = clock_ms();
    std::set<std::string> busy = busy_users();
    std::size_t fresh = within_share(now_ms);
    for (auto& [number, setup] : setups_) {
        if (setup.runs() || *setup.cancelled || busy.contains(setup.order.token_user)) continue;
        if (fresh >= shares_.at_once || busy.size() >= shares_.most) return make_way(now_ms);
        busy.insert(setup.order.token_user);
        setup.begun_ms = now_ms;
        ++fresh;
        start(number, setup);
    }
}

void SetupRunner::make_way(std::int64_t now_ms) {
    if (look_again_) background_.cancel(*look_again_);
    std::int64_t wait_ms = shares_.share_ms;
    Setup* oldest = nullptr;
    for (auto& [number, setup] : setups_) {
        if (!setup.runs() || *setup.cancelled) continue;
        if (!oldest || setup.begun_ms < oldest->begun_ms) oldest = &setup;
        if (const std::int64_t left_ms = setup.begun_ms + shares_.share_ms - now_ms; left_ms > 0)
            wait_ms = std::min(wait_ms, left_ms);
    }
    if (oldest && busy_users().size() >= shares_.most && now_ms - oldest->begun_ms >= shares_.share_ms) {
        oldest->given_up = "was ended after " + std::to_string((now_ms - oldest->begun_ms) / 1'000) +
                           " s: " + std::to_string(shares_.most) + " setups run on this node, and other users wait";
        *oldest->cancelled = true;
    }
    look_again_ = background_.after(wait_ms, [this] {
        look_again_.reset();
        next();
    });
}

void SetupRunner::start(Number number, Setup& setup) {
    const auto work = [this, number, order = setup.order, cancelled = setup.cancelled] {
        auto result = SetupResult{.why = not_begun};
        try {
            result = carry_out_alone(order, *cancelled);
        } catch (const std::exception& wrong) { result.why = net::thrown(wrong, "it").message; }
        finish(number, std::move(result));
    };
    try {
        setup.thread = std::thread(work);
    } catch (const std::system_error& none) {
        *setup.cancelled = true;  // it is not tried again
        finish(number, {.why = std::string("there is no thread for it: ") + none.what()});
    }
}

SetupResult SetupRunner::carry_out_alone(const SetupOrder& order, const std::atomic<bool>& cancelled) {
    const auto held = keys_.hold(setup_key(order), cancelled);
    if (!held) return {.why = not_begun};
    return carry_out(setups_dir_, order, bounds_(), cancelled);
}

void SetupRunner::finish(Number number, SetupResult result) {
    background_.post([this, number, result = std::move(result)]() mutable {
        auto ended = setups_.extract(number);
        if (ended.empty()) return;
        if (ended.mapped().runs()) ended.mapped().thread.join();  // its thread has posted this call and is ending
        if (const std::string& why = ended.mapped().given_up; !why.empty() && !result.why.empty()) result.why = why;
        ended.mapped().done(result);
        next();
    });
}

}  // namespace rtrain::agent
