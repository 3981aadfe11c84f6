// Counts a server's connections, requests and held bytes for each address and each caller. A connection belongs to a
// stranger until one of its requests has been authorised. Strangers share half of the connections among their
// addresses, and never use up the other half. All I/O threads of a server call it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace rtrain::net {

struct ConnectionLimits {
    std::size_t strangers = 0;              // the most connections of all strangers together
    std::size_t strangers_per_address = 0;  // beyond it, the oldest connection of the address is closed for the new one
    std::size_t known = 0;                  // the most connections of all authenticated callers
    std::size_t known_per_caller = 0;       // the most of one node or admin
    std::size_t shared = 0;                 // the most of all callers without room of their own (Room::shared)
    std::size_t shared_per_caller = 0;      // the most of one such caller: a user with all tokens and runs
    std::uint64_t stranger_bytes = 8 << 20;  // bytes that were read from one address without authorisation
    std::uint64_t caller_bytes = 256 << 20;  // bytes of one caller's bodies in memory that are being read
    // The permitted requests: a burst, and a rate per second.
    double stranger_burst = 2'048, stranger_per_s = 256;
    double caller_burst = 10'000, caller_per_s = 5'000;
    static ConnectionLimits of(std::size_t connections_max);
};

// Nodes and admins have room that other callers cannot use.
enum class Room { shared, reserved };

class ConnectionTable {
  public:
    using Clock = std::chrono::steady_clock;
    explicit ConnectionTable(ConnectionLimits limits) : limits_(limits) {}

    // Enters a stranger's connection and returns its number. Addresses of one IPv6 /64 count as one. `close` is called
    // at most once, by any thread, if the connection must make room for another one.
    std::uint64_t enter(const std::string& address, std::function<void()> close);
    void leave(std::uint64_t number);
    // Assigns the connection to the caller. Returns true if it is the caller's now; the bytes that it had used are
    // given back. Returns false if there is no room for it. A repeated call for the same caller returns true.
    bool belongs_to(std::uint64_t number, const std::string& caller, Room room = Room::shared);
    // Counts a request for the address of a stranger's connection, or for its caller. Returns false if there are too
    // many at present.
    bool may_request(std::uint64_t number, Clock::time_point now);
    void give_back_request(std::uint64_t number);
    // Counts bytes that were read, except for the first 4 KiB. Returns false if the address, or the caller, has reached
    // its limit.
    bool may_hold(std::uint64_t number, std::uint64_t bytes);
    void release_bytes(std::uint64_t number);  // releases all bytes of the connection

    std::size_t strangers() const;  // number of connections of all strangers

  private:
    struct Party {  // an address of strangers, or a caller
        std::set<std::uint64_t> connections;
        std::uint64_t bytes = 0;
        double requests = 0;  // requests that are still permitted
        Clock::time_point counted{};
        bool fresh = true;
    };
    struct Entry {
        std::string party;
        bool known = false;
        Room room = Room::reserved;
        std::uint64_t bytes = 0;
        std::function<void()> close;
    };
    using Parties = std::map<std::string, Party>;
    Party& party_of(const Entry& entry) { return (entry.known ? callers_ : addresses_)[entry.party]; }
    void forget(std::uint64_t number, const Entry& entry);
    void drop_idle_parties(Parties& parties, Clock::time_point now);
    std::optional<std::uint64_t> one_to_close(const std::string& address) const;
    void refill(Party& party, bool known, Clock::time_point now) const;

    const ConnectionLimits limits_;
    mutable std::mutex mutex_;
    std::uint64_t next_ = 0;
    std::size_t strangers_ = 0, shared_ = 0;
    std::map<std::uint64_t, Entry> entries_;
    Parties addresses_, callers_;
};

}  // namespace rtrain::net
