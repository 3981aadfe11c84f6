// Answers that stay open: streams to followers of events, logs and metrics. Each has a pump, a function that writes new
// data. Shortly after a change all pumps run, once for many changes. In between, only pumps run that have more to
// write.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "daemon/net/loop/background.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

class Feeds {
  public:
    // result of a pump; `again`: it has more to write without waiting for a change
    enum class Pumped { goes_on, again, ended };
    using Pump = std::function<Pumped(net::Stream&)>;

    explicit Feeds(net::Background background) : background_(background) {}
    using Ready = std::function<void()>;
    // Adds a stream with its pump. Returns a function that lets this pump run without a change. `permitted` is called
    // twice a second. When it returns false, the stream is cut and unread data is dropped.
    Ready add(std::shared_ptr<net::Stream> stream, Pump pump, std::function<bool()> permitted);
    void poke();                                  // to be called when something has changed
    std::uint64_t news() const { return news_; }  // number of changes so far
    void close_all();

  private:
    struct Follower {
        std::shared_ptr<net::Stream> stream;
        Pump pump;
        std::function<bool()> permitted;
        bool ended = false;  // true: the pump has no more data; the reader still receives what was written
        bool gone = false;
        bool due = true;         // true: the pump must run even without a change
        std::uint64_t news = 0;  // value of `news_` when the pump last ran
    };
    void pump_soon();
    void pump_all();
    // runs the pump; false: the stream has ended, and its follower must be removed
    bool pump_or_drop(Follower& follower);
    Pumped guarded_pump(Follower& follower);
    void keep_alive();
    void watch();  // checks whether each follower is still permitted

    const net::Background background_;
    std::list<std::shared_ptr<Follower>> followers_;
    std::uint64_t news_ = 0;
    bool poked_ = false, keeping_ = false, watching_ = false;
};

// Returns one server-sent event.
std::string sse(const std::string& data, const std::string& id = "", const std::string& event = "");

}  // namespace rtrain::head
