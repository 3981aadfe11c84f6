// Settings have the form "serial expires_wall_ms serial ...": "issued/<node>" and "revoked/<node>" (in an earlier
// version also "revoked_simulated/<node>", which counts as well). Expired entries are dropped, since no side accepts
// them anyway. That bounds the list for agents.
#include "daemon/head/access/revocation.hpp"

#include <cstdio>
#include <sstream>
#include <utility>

#include "daemon/head/base/clock.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t announce_pause_ms = 500;
// Each serial of a long list makes the pause before the list is sent this much longer, so that thousands of nodes that
// leave in a row cause few messages.
constexpr std::int64_t serials_each_ms = 10;
constexpr std::int64_t leaf_lasts_ms = 366LL * 24 * 3'600'000;
constexpr const char *issued_prefix = "issued/", *revoked_prefix = "revoked", *revoked_node_prefix = "revoked/";

std::string text_of(const std::map<std::string, std::int64_t>& serials) {
    std::string out;
    for (const auto& [serial, expires] : serials)
        if (expires > wall_ms()) out += serial + " " + std::to_string(expires) + " ";
    return out;
}

}  // namespace

void Revocations::open() {
    std::vector<std::string> empty;
    for (const char* prefix : {issued_prefix, revoked_prefix})
        for (const auto& [setting, text] : journal_.settings(prefix)) {
            Serials serials;
            std::istringstream words(text);
            std::string serial;
            std::int64_t expires = 0;
            while (words >> serial >> expires)
                if (expires > wall_ms()) serials[serial] = expires;
            if (serials.empty()) empty.push_back(setting);
            if (setting.starts_with(revoked_prefix))
                for (const auto& [refused_serial, until] : serials) refused_.insert(refused_serial);
            if (!serials.empty()) lists_[setting] = std::move(serials);
        }
    if (Status erased = journal_.erase_settings(empty); !erased)
        std::fprintf(stderr, "rtrain head: %s\n", erased.error().message.c_str());
    tokens_.revoke_certificates(refused_);
    announce_(serials_in_force());
}

void Revocations::issued(const std::string& node, const std::string& serial,
                         std::optional<std::int64_t> expires_wall_ms) {
    const std::int64_t now = wall_ms();
    Serials& known = lists_[issued_prefix + node];
    if (!known.try_emplace(serial, expires_wall_ms.value_or(now + leaf_lasts_ms)).second) return;
    std::erase_if(known, [now](const auto& certificate) { return certificate.second <= now; });
    changed_.insert(issued_prefix + node);
}

void Revocations::revoke(const std::string& node) {
    const auto entry = lists_.find(issued_prefix + node);
    if (entry == lists_.end()) return;
    const std::string setting = revoked_node_prefix + node;
    for (const auto& [serial, expires] : entry->second) {
        lists_[setting][serial] = expires;
        fresh_.insert(serial);
        refused_.insert(serial);
    }
    lists_.erase(entry);
    changed_.insert({setting, issued_prefix + node});
}

void Revocations::add_changes(Pending& batch) {
    for (const std::string& setting : std::exchange(changed_, {}))
        batch.batch.settings[setting] = text_of(lists_[setting]);
    batch.revoked = std::exchange(fresh_, {});
}

void Revocations::saved(const Pending& batch) {
    if (batch.revoked.empty()) return;
    tokens_.revoke_certificates(batch.revoked);
    if (std::exchange(announcing_, true)) return;
    const auto pause_ms = announce_pause_ms + static_cast<std::int64_t>(refused_.size()) / serials_each_ms;
    background_.after(pause_ms, [this] { announce(); });
}

void Revocations::announce() {
    announcing_ = false;
    announce_(serials_in_force());
}

std::vector<std::string> Revocations::serials_in_force() const {
    std::vector<std::string> out;
    for (const auto& [setting, serials] : lists_) {
        if (!setting.starts_with(revoked_prefix)) continue;
        for (const auto& [serial, expires] : serials)
            if (expires > wall_ms()) out.push_back(serial);
    }
    return out;
}

}  // namespace rtrain::head
