// See lanes.hpp.
#include "daemon/net/lanes.hpp"

namespace rtrain::net {
namespace {

constexpr std::size_t notes_max = 256;  // strangers can make up reasons; our memory is not theirs

}  // namespace

void Hub::note_refusal(const std::string& address, const std::string& why) {
    if (!options.on_refused) return;
    {
        std::lock_guard lock(noted_mutex_);
        if (noted_.size() >= notes_max || !noted_.insert(address.substr(0, address.rfind(':')) + " " + why).second)
            return;
    }
    loop.post([alive = alive, told = options.on_refused, text = address + ": " + why] {
        if (*alive) told(text);
    });
}

}  // namespace rtrain::net
