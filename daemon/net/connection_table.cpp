// See connection_table.hpp.
#include "daemon/net/connection_table.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "daemon/net/address_network.hpp"

namespace rtrain::net {
namespace {

// The first bytes of each connection are not counted, so that a caller can authenticate even if its address is at its
// limit.
constexpr std::uint64_t uncounted_bytes = 4 << 10;
std::uint64_t counted(std::uint64_t bytes) { return bytes > uncounted_bytes ? bytes - uncounted_bytes : 0; }

// the most addresses and callers without a connection whose request counts are kept
constexpr std::size_t parties_kept = 16'384;

}  // namespace

std::string network_of(const std::string& address) {
    in6_addr six{};
    if (::inet_pton(AF_INET6, address.substr(0, address.find('%')).c_str(), &six) != 1 || IN6_IS_ADDR_V4MAPPED(&six))
        return address;
    constexpr std::size_t network_bytes = 8;
    std::memset(six.s6_addr + network_bytes, 0, sizeof six.s6_addr - network_bytes);
    char text[INET6_ADDRSTRLEN] = {};
    return ::inet_ntop(AF_INET6, &six, text, sizeof text) == nullptr ? address : std::string(text) + "/64";
}

// Strangers may use half of the connections: many agents connect at once, from few addresses, when a head restarts.
ConnectionLimits ConnectionLimits::of(std::size_t connections_max) {
    const std::size_t half = std::max<std::size_t>(1, connections_max / 2);
    const std::size_t known = std::max<std::size_t>(1, connections_max - half);
    const std::size_t shared = std::max<std::size_t>(1, known / 2);
    constexpr std::size_t some = 4;  // the share of a user in a small table
    return {.strangers = half,
            .strangers_per_address = std::max<std::size_t>(1, half / 2),
            .known = known,
            .known_per_caller = std::max<std::size_t>(1, half / 2),
            .shared = shared,
            .shared_per_caller = std::min(shared, std::max(some, shared / 4))};
}

std::uint64_t ConnectionTable::enter(const std::string& from, std::function<void()> close) {
    const std::string address = network_of(from);
    std::function<void()> close_other;
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        if (const auto other = one_to_close(address)) {
            const Entry entry = std::move(entries_.at(*other));
            forget(*other, entry);
            close_other = entry.close;
        }
        number = ++next_;
        entries_[number] = {.party = address, .known = false, .bytes = 0, .close = std::move(close)};
        addresses_[address].connections.insert(number);
        ++strangers_;
    }
    if (close_other) close_other();
    return number;
}

// Returns the stranger's connection to close. It is the oldest of this address if the address is at its limit.
// Otherwise it is the oldest of the address with the most, if strangers have reached their limit together. So a
// connection that is about to authenticate is closed last.
std::optional<std::uint64_t> ConnectionTable::one_to_close(const std::string& address) const {
    const auto own = addresses_.find(address);
    if (own != addresses_.end() && own->second.connections.size() >= limits_.strangers_per_address)
        return *own->second.connections.begin();
    if (strangers_ < limits_.strangers) return std::nullopt;
    const auto most = std::max_element(addresses_.begin(), addresses_.end(), [](const auto& a, const auto& b) {
        const auto &of_a = a.second.connections, &of_b = b.second.connections;
        if (of_a.size() != of_b.size() || of_a.empty()) return of_a.size() < of_b.size();
        return *of_a.begin() > *of_b.begin();
    });
    if (most == addresses_.end() || most->second.connections.empty()) return std::nullopt;
    return *most->second.connections.begin();
}

void ConnectionTable::leave(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto place = entries_.find(number);
    if (place == entries_.end()) return;
    const Entry entry = std::move(place->second);
    forget(number, entry);
}

void ConnectionTable::forget(std::uint64_t number, const Entry& entry) {
    Party& party = party_of(entry);
    party.connections.erase(number);
    party.bytes -= counted(entry.bytes);
    if (!entry.known) --strangers_;
    if (entry.known && entry.room == Room::shared) --shared_;
    entries_.erase(number);
    Parties& parties = entry.known ? callers_ : addresses_;
    if (parties.size() > parties_kept) drop_idle_parties(parties, Clock::now());
}

// Removes parties without connections whose allowance is full again: a new entry would be equal to theirs.
void ConnectionTable::drop_idle_parties(Parties& parties, Clock::time_point now) {
    const bool known = &parties == &callers_;
    const double burst = known ? limits_.caller_burst : limits_.stranger_burst;
    for (auto at = parties.begin(); at != parties.end();) {
        refill(at->second, known, now);
        at = at->second.connections.empty() && at->second.requests >= burst ? parties.erase(at) : std::next(at);
    }
}

bool ConnectionTable::belongs_to(std::uint64_t number, const std::string& caller, Room room) {
    const std::lock_guard lock(mutex_);
    const auto place = entries_.find(number);
    if (place == entries_.end()) return false;
    Entry& entry = place->second;
    if (entry.known && entry.party == caller) return true;
    const std::size_t known = entries_.size() - strangers_;
    const auto party = callers_.find(caller);
    const bool shares = room == Room::shared, shared_before = entry.known && entry.room == Room::shared;
    const std::size_t most = shares ? limits_.shared_per_caller : limits_.known_per_caller;
    const bool crowded = party != callers_.end() && party->second.connections.size() >= most;
    const bool no_room_shared = shares && !shared_before && shared_ >= limits_.shared;
    if (crowded || no_room_shared || (!entry.known && known >= limits_.known)) return false;
    Party& before = party_of(entry);
    before.connections.erase(number);
    before.bytes -= counted(std::exchange(entry.bytes, 0));
    if (!entry.known) --strangers_;
    if (shared_before) --shared_;
    if (shares) ++shared_;
    entry.known = true;
    entry.room = room;
    entry.party = caller;
    callers_[caller].connections.insert(number);
    return true;
}

void ConnectionTable::refill(Party& party, bool known, Clock::time_point now) const {
    const double burst = known ? limits_.caller_burst : limits_.stranger_burst;
    const double passed = std::chrono::duration<double>(now - party.counted).count();
    party.requests =
        party.fresh
            ? burst
            : std::min(burst, party.requests + passed * (known ? limits_.caller_per_s : limits_.stranger_per_s));
    party.fresh = false;
    party.counted = now;
}

bool ConnectionTable::may_request(std::uint64_t number, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(number);
    if (entry == entries_.end()) return false;
    Party& party = party_of(entry->second);
    refill(party, entry->second.known, now);
    if (party.requests < 1) return false;
    party.requests -= 1;
    return true;
}

void ConnectionTable::give_back_request(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(number);
    if (entry != entries_.end()) party_of(entry->second).requests += 1;
}

bool ConnectionTable::may_hold(std::uint64_t number, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(number);
    if (entry == entries_.end()) return false;
    Party& party = party_of(entry->second);
    std::uint64_t& held = entry->second.bytes;
    const std::uint64_t more = counted(held + bytes) - counted(held);
    if (more > 0 && party.bytes + more > (entry->second.known ? limits_.caller_bytes : limits_.stranger_bytes))
        return false;
    party.bytes += more;
    held += bytes;
    return true;
}

void ConnectionTable::release_bytes(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(number);
    if (entry == entries_.end()) return;
    party_of(entry->second).bytes -= counted(std::exchange(entry->second.bytes, 0));
}

std::size_t ConnectionTable::strangers() const {
    const std::lock_guard lock(mutex_);
    return strangers_;
}

}  // namespace rtrain::net
