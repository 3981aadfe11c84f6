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
    std::size_t strangers = 0;               // connections of all strangers together
    std::size_t strangers_per_address = 0;   // beyond: the address's oldest one is closed for the new one
    std::size_t known = 0;                   // connections of all callers that are known
    std::size_t known_per_caller = 0;        // of one node or admin
    std::size_t shared = 0;                  // of all callers without room of their own (Room::shared)
    std::size_t shared_per_caller = 0;       // of one of these: a user with all tokens and runs
    std::uint64_t stranger_bytes = 8 << 20;  // read from one address, and not yet authorised
    std::uint64_t caller_bytes = 256 << 20;  // bodies in memory of one caller, being read
    // Requests: so many at once, and so many a second in the long run.
    double stranger_burst = 2'048, stranger_per_s = 256;
    double caller_burst = 10'000, caller_per_s = 5'000;
    static ConnectionLimits of(std::size_t connections_max);
};

// Nodes and admins have room that other callers never use up.
enum class Room { shared, reserved };

class ConnectionTable {
  public:
    using Clock = std::chrono::steady_clock;
    explicit ConnectionTable(ConnectionLimits limits) : limits_(limits) {}

    // Enters a stranger's connection and returns its number; the addresses of one IPv6 /64 count as one. `close` is
    // called at most once, by any thread, when the connection has to make room for another one.
    std::uint64_t enter(const std::string& address, std::function<void()> close);
    void leave(std::uint64_t number);
    // Gives the connection to the caller. True: it is the caller's now, and the bytes that it had taken are given back.
    // False: there is no room for it. Asked again for the same caller it returns true.
    bool belongs_to(std::uint64_t number, const std::string& caller, Room room = Room::shared);
    // Counts a request of the address of a stranger's connection, or of its caller. False: too many for now.
    bool may_request(std::uint64_t number, Clock::time_point now);
    void give_back_request(std::uint64_t number);
    // Counts bytes that were read, but for the first 4 KiB. False: its address, or its caller, holds as many as it may.
    bool may_hold(std::uint64_t number, std::uint64_t bytes);
    void release_bytes(std::uint64_t number);  // all that the connection holds

    std::size_t strangers() const;  // connections of all of them

  private:
    struct Party {  // an address of strangers, or a caller
        std::set<std::uint64_t> connections;
        std::uint64_t bytes = 0;
        double requests = 0;  // that may still be made
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
