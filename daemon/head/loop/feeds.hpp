// Answers that go on: followers of events, logs and metrics. Each has a pump that writes what is new; all pumps run
// shortly after something has happened, however much it was, and never without a follower. In between, only those run
// that have more to write.
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
    enum class Pumped { goes_on, again, ended };  // again: there is more, do not wait for news
    using Pump = std::function<Pumped(net::Stream&)>;

    explicit Feeds(net::Background background) : background_(background) {}
    using Ready = std::function<void()>;
    // The answer is to be called where nothing has happened, but this pump is ready to write.
    // `permitted` is asked twice a second until the follower has all: when it says no, the stream is cut, without what
    // waits.
    Ready add(std::shared_ptr<net::Stream> stream, Pump pump, std::function<bool()> permitted);
    void poke();                                  // something has happened
    std::uint64_t news() const { return news_; }  // how much has happened
    void close_all();

  private:
    struct Follower {
        std::shared_ptr<net::Stream> stream;
        Pump pump;
        std::function<bool()> permitted;
        bool ended = false;  // the pump has no more; what waits is still being read
        bool gone = false;
        bool due = true;         // to be pumped without news
        std::uint64_t news = 0;  // when it was pumped last
    };
    void pump_soon();
    void pump_all();
    bool pump_or_drop(Follower& follower);  // false: it is no follower any more
    Pumped guarded_pump(Follower& follower);
    void keep_alive();
    void watch();  // over who may still follow

    const net::Background background_;
    std::list<std::shared_ptr<Follower>> followers_;
    std::uint64_t news_ = 0;
    bool poked_ = false, keeping_ = false, watching_ = false;
};

// One server-sent event.
std::string sse(const std::string& data, const std::string& id = "", const std::string& event = "");

}  // namespace rtrain::head
