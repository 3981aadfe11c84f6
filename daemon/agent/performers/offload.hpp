// Work on the pool whose answer comes back to the loop.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "daemon/agent/preparation/preparation.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

// The place of what is short and waited for: on the same storage, with threads that uploads and copies cannot fill.
inline std::string apart_from_uploads(const std::string& storage_path) { return "short " + storage_path; }

// `then` gets what `work` returned, on the loop; work that threw: its Error or Trouble. At `place`, a storage path:
// what hangs there stops no work of other places. Answers that can hold neither: Background::offload_at.
template <class Work, class Then>
void offload_at(net::Background background, const std::string& place, Work work, Then then) {
    using Answer = decltype(work());
    const auto failed = [](const Error& error) -> Answer {
        if constexpr (std::is_constructible_v<Answer, Error>)
            return error;
        else
            return Trouble{error.message, false};
    };
    background.offload_at(place, std::move(work), failed, std::move(then));
}

}  // namespace rtrain::agent
