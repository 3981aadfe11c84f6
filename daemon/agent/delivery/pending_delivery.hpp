// The files of an ended attempt that are not in its run's directory yet: its last metrics, its logs, its end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/agent/disk/journal.hpp"
#include "daemon/agent/preparation/preparation.hpp"
#include "daemon/net/loop/loop.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::agent {

struct PendingDelivery {
    protocol::Prepare prepare;
    Context context;  // null for an attempt of an earlier agent before the first try
    std::uint32_t number = 0;
    std::shared_ptr<Journal> journal;          // null: all metrics are delivered
    bool logs = false;                         // true: logs are not delivered
    std::optional<storage::AttemptEnd> end{};  // set if the end is not delivered
    std::int64_t since_wall_ms = 0, again_ms = 5'000;
    net::Loop::TimerId timer = 0;
    bool trying = false;  // also true while the run is being removed
    bool warned = false;  // a failed try was logged
};

// Returns the mark of an attempt with a pending delivery, which the next agent reads.
std::string encode_mark(const PendingDelivery& delivery);
PendingDelivery delivery_of(const SavedAttempt& saved, const std::string& mark, const NodeFiles& files);

struct Tried {
    Status all{Done{}};  // the first error; a missing run is none
    Context context;
    bool logs = false;         // the logs are delivered now
    bool run_is_gone = false;  // nothing was written, and nothing will be
};
// Tries to deliver the rest of an attempt to its run's directory. Blocks; call it on the pool. Writes nothing if the
// run was removed, or if its directory belongs to another run now.
Tried deliver(const PendingDelivery& delivery, const NodeFacts& facts);

// Fails unless an attempt whose workers were launched finds its run. After a restart of the node the mount of the path
// may be missing, and files written there would be lost. Blocks: reads one small file of the storage.
Status run_is_there(const AttemptContext& context, std::uint32_t number);

}  // namespace rtrain::agent
