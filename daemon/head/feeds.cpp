// See feeds.hpp.
#include "daemon/head/feeds.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t pause_ms = 30;           // news within this time are written together
constexpr std::int64_t keep_alive_ms = 20'000;  // a comment, so that no proxy takes silence for death

}  // namespace

void Feeds::add(std::shared_ptr<net::Stream> stream, Pump pump) {
    auto follower = std::make_shared<Follower>(Follower{std::move(stream), std::move(pump)});
    follower->stream->on_closed([this, weak = std::weak_ptr(follower)] {
        if (auto one = weak.lock()) one->gone = true;
        poke();
    });
    followers_.push_back(std::move(follower));
    if (!keeping_) {
        keeping_ = true;
        loop_.after(keep_alive_ms, [this] { keep_alive(); });
    }
    poke();
}

void Feeds::poke() {
    if (poked_ || followers_.empty()) return;
    poked_ = true;
    loop_.after(pause_ms, [this] { pump_all(); });
}

void Feeds::pump_all() {
    poked_ = false;
    bool more = false;
    for (auto at = followers_.begin(); at != followers_.end();) {
        const std::shared_ptr<Follower> one = *at;  // a pump may add or close others
        const Pumped pumped = one->gone ? Pumped::ended : one->pump(*one->stream);
        if (pumped == Pumped::again) more = true;
        if (pumped != Pumped::ended && !one->gone) {
            ++at;
            continue;
        }
        if (!one->gone) one->stream->close();
        at = followers_.erase(at);
    }
    if (more) poke();
}

void Feeds::keep_alive() {
    keeping_ = !followers_.empty();
    if (!keeping_) return;
    for (const auto& one : followers_)
        if (!one->gone && !one->stream->write(": still here\n\n")) one->gone = true;
    loop_.after(keep_alive_ms, [this] { keep_alive(); });
}

void Feeds::close_all() {
    for (const auto& one : followers_)
        if (!one->gone) one->stream->close();
    followers_.clear();
}

std::string sse(const std::string& data, const std::string& id, const std::string& event) {
    std::string out;
    if (!event.empty()) out += "event: " + event + "\n";
    if (!id.empty()) out += "id: " + id + "\n";
    return out + "data: " + data + "\n\n";
}

}  // namespace rtrain::head
