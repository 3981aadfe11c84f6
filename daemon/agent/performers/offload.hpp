// Work on the pool whose result is returned on the loop.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "daemon/agent/preparation/preparation.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

// Returns a place for short work that is waited for: on the same storage, but with threads that uploads and copies
// cannot occupy.
inline std::string apart_from_uploads(const std::string& storage_path) { return "short " + storage_path; }

// Returns the place of work on files that ranks have staged. These are on the node's own disk unless the storage is a
// directory, so that the work waits for no answer of the storage.
inline std::string staging_place(const AttemptContext& context) {
    return context.store->local() ? apart_from_uploads(context.prepare.storage_path) : std::string("staged files");
}

// Runs `work` on the pool, and calls `then` with its result on the loop. If `work` throws, the result is its Error or
// Trouble. `place` is a storage path: work that hangs there does not block work of other places. For results that are
// neither use Background::offload_at.
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
