// See server_state.hpp.
#include "daemon/net/server_state.hpp"

namespace rtrain::net {
namespace {

constexpr std::size_t notes_max = 256;  // Strangers can invent reasons, so the number of stored ones is bounded.

}  // namespace

void ServerState::note_refusal(const std::string& address, const std::string& why) {
    if (!options.on_refused) return;
    {
        std::lock_guard lock(noted_mutex_);
        if (noted_.size() >= notes_max || !noted_.insert(address.substr(0, address.rfind(':')) + " " + why).second)
            return;
    }
    loop.post([alive = alive, on_refused = options.on_refused, text = address + ": " + why] {
        if (*alive) on_refused(text);
    });
}

}  // namespace rtrain::net
