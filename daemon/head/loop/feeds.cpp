// See feeds.hpp.
#include "daemon/head/loop/feeds.hpp"

#include <cstdio>
#include <utility>

#include "storage/state/journal.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t pause_ms = 30;   // ms; news that arrive within this time are written together
constexpr std::int64_t watch_ms = 500;  // ms; the longest time for which a stream continues after its token was revoked
constexpr std::int64_t keep_alive_ms = 20'000;  // ms between two comments, so that proxies do not close a silent stream

}  // namespace

Feeds::Ready Feeds::add(std::shared_ptr<net::Stream> stream, Pump pump, std::function<bool()> permitted) {
    auto follower = std::make_shared<Follower>(Follower{std::move(stream), std::move(pump), std::move(permitted)});
    follower->stream->on_closed([this, weak = std::weak_ptr(follower)] {
        if (auto live_follower = weak.lock()) live_follower->gone = true;
        poke();
    });
    followers_.push_back(follower);
    if (!keeping_) {
        keeping_ = true;
        background_.after(keep_alive_ms, [this] { keep_alive(); });
    }
    if (!std::exchange(watching_, true)) background_.after(watch_ms, [this] { watch(); });
    poke();
    return [this, weak = std::weak_ptr(follower)] {
        const auto live_follower = weak.lock();
        if (!live_follower) return;
        live_follower->due = true;
        pump_soon();
    };
}

void Feeds::watch() {
    watching_ = !followers_.empty();
    if (!watching_) return;
    for (const auto& follower : followers_)
        // causes a run of the pumps, in which the stream is ended
        if (!follower->gone && !follower->permitted()) poke();
    background_.after(watch_ms, [this] { watch(); });
}

void Feeds::poke() {
    ++news_;
    pump_soon();
}

void Feeds::pump_soon() {
    if (poked_ || followers_.empty()) return;
    poked_ = true;
    background_.after(pause_ms, [this] { pump_all(); });
}

void Feeds::pump_all() {
    poked_ = false;
    bool more = false;
    for (auto at = followers_.begin(); at != followers_.end();) {
        const std::shared_ptr<Follower> follower = *at;  // a copy, because a pump may add or close other followers
        const bool stays = (!follower->gone && !follower->due && follower->news == news_) || pump_or_drop(*follower);
        more = more || (stays && follower->due);
        at = stays ? std::next(at) : followers_.erase(at);
    }
    if (more) pump_soon();
}

bool Feeds::pump_or_drop(Follower& follower) {
    follower.due = false;
    follower.news = news_;
    const bool permitted = follower.permitted();
    if (permitted && !follower.gone && !follower.ended) {
        const Pumped pumped = guarded_pump(follower);
        if (pumped == Pumped::again) follower.due = true;
        // the follower stays in the list, since its unread data may still have to be dropped
        if (pumped == Pumped::ended && !follower.gone) {
            follower.ended = true;
            follower.stream->close();
        }
    }
    if (permitted && !follower.gone) return true;
    if (!follower.gone) follower.stream->cut();
    return false;
}

// Runs the pump. An exception ends only this stream, which its reader may resume.
Feeds::Pumped Feeds::guarded_pump(Follower& follower) {
    try {
        return follower.pump(*follower.stream);
    } catch (const state::ReadFailed& failed) {
        std::fprintf(stderr, "rtrain head: a stream ends: %s\n", failed.error.message.c_str());
        return Pumped::ended;
    }
}

void Feeds::keep_alive() {
    keeping_ = !followers_.empty();
    if (!keeping_) return;
    for (const auto& follower : followers_)
        if (!follower->gone && !follower->ended && !follower->stream->write(": still here\n\n")) follower->gone = true;
    background_.after(keep_alive_ms, [this] { keep_alive(); });
}

void Feeds::close_all() {
    for (const auto& follower : followers_)
        if (!follower->gone) follower->stream->close();
    followers_.clear();
}

std::string sse(const std::string& data, const std::string& id, const std::string& event) {
    std::string out;
    if (!event.empty()) out += "event: " + event + "\n";
    if (!id.empty()) out += "id: " + id + "\n";
    return out + "data: " + data + "\n\n";
}

}  // namespace rtrain::head
