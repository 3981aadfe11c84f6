// Loopback addresses beside other addresses: the nodes to warn, and the time of the warning.
#include "daemon/head/events/addresses.hpp"

namespace rtrain::head {

bool is_loopback(const std::string& address) {
    return address == "localhost" || address == "::1" || address.starts_with("127.") ||
           address.starts_with("::ffff:127.");
}

std::optional<Addresses::Finding> Addresses::known(const std::string& node, const std::string& address) {
    const bool warned = !loopback_.empty() && !outside_.empty();
    const bool was_loopback = loopback_.contains(node);
    forget(node);
    if (address.empty()) return std::nullopt;
    (is_loopback(address) ? loopback_ : outside_)[node] = address;
    if (loopback_.empty() || outside_.empty()) return std::nullopt;
    if (loopback_.contains(node))
        return warned && was_loopback ? std::nullopt : std::optional(Finding{node, warning(node)});
    if (warned) return std::nullopt;
    const std::string& first = loopback_.begin()->first;
    const std::size_t more = loopback_.size() - 1;
    return Finding{first, warning(first) + (more == 0 ? "" : "; so it is with " + std::to_string(more) + " more")};
}

void Addresses::forget(const std::string& node) {
    loopback_.erase(node);
    outside_.erase(node);
}

std::string Addresses::warning(const std::string& node) const {
    const auto entry = loopback_.find(node);
    if (entry == loopback_.end() || outside_.empty()) return "";
    const auto& [other, address] = *outside_.begin();
    return entry->second + " leads other machines to themselves, and " + other + " is at " + address +
           ": unless both are one machine, a run over both fails before it starts (rtrain node join --address gives "
           "another)";
}

}  // namespace rtrain::head
