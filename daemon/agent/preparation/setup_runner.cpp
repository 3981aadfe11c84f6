#include "daemon/agent/preparation/setup_runner.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <system_error>
#include <utility>

#include "daemon/agent/base/limits.hpp"

namespace rtrain::agent {
namespace {

constexpr const char* not_begun = "was given up before it began";

}  // namespace

SetupRunner::~SetupRunner() {
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

void SetupRunner::next() {
    std::set<std::string> busy;
    for (const auto& [number, setup] : setups_)
        if (setup.runs()) busy.insert(setup.order.token_user);
    for (auto& [number, setup] : setups_) {
        if (busy.size() >= limits::setups_at_once) return;
        if (setup.runs() || *setup.cancelled || !busy.insert(setup.order.token_user).second) continue;
        start(number, setup);
    }
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
    background_.post([this, number, result = std::move(result)] {
        auto ended = setups_.extract(number);
        if (ended.empty()) return;
        if (ended.mapped().runs()) ended.mapped().thread.join();  // it has posted this, and ends
        ended.mapped().done(result);
        next();
    });
}

}  // namespace rtrain::agent
