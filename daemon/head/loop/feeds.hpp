// Open answers: followers of events, logs and metrics. Each has a pump that writes new data. All pumps run shortly
// after a change, once for many changes, and not without followers. In between, only pumps with more to write run.
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
    enum class Pumped { goes_on, again, ended };  // again: there is more to write, without waiting for news
    using Pump = std::function<Pumped(net::Stream&)>;

    explicit Feeds(net::Background background) : background_(background) {}
    using Ready = std::function<void()>;
    // Returns a function that makes this pump run without a change. `permitted` is called twice a second. When it
    // returns false, the stream is cut, and unread data is dropped.
    Ready add(std::shared_ptr<net::Stream> stream, Pump pump, std::function<bool()> permitted);
    void poke();                                  // something has changed
    std::uint64_t news() const { return news_; }  // number of changes
    void close_all();

  private:
    struct Follower {
        std::shared_ptr<net::Stream> stream;
        Pump pump;
        std::function<bool()> permitted;
        bool ended = false;  // the pump has no more; the reader still reads the rest
        bool gone = false;
        bool due = true;         // must run without news
        std::uint64_t news = 0;  // news_ at its last run
    };
    void pump_soon();
    void pump_all();
    bool pump_or_drop(Follower& follower);  // false: it is no follower any more
    Pumped guarded_pump(Follower& follower);
    void keep_alive();
    void watch();  // checks that followers are still permitted

    const net::Background background_;
    std::list<std::shared_ptr<Follower>> followers_;
    std::uint64_t news_ = 0;
    bool poked_ = false, keeping_ = false, watching_ = false;
};

// Returns one server-sent event.
std::string sse(const std::string& data, const std::string& id = "", const std::string& event = "");

}  // namespace rtrain::head
