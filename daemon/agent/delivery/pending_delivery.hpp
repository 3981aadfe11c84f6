// What is not beside its run when an attempt has ended: its last metrics, its logs, its end.
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
    Context context;  // null: of an attempt that ended under an agent before this one, and not tried yet
    std::uint32_t number = 0;
    std::shared_ptr<Journal> journal;          // null: all metrics are there
    bool logs = false;                         // are not
    std::optional<storage::AttemptEnd> end{};  // is not
    std::int64_t since_wall_ms = 0, again_ms = 5'000;
    net::Loop::TimerId timer = 0;
    bool trying = false;  // also while its run is being removed
    bool warned = false;  // that a try has failed
};

// The mark of an attempt with a pending delivery, for the agent after this one.
std::string encode_mark(const PendingDelivery& delivery);
PendingDelivery delivery_of(const SavedAttempt& saved, const std::string& mark, const NodeFiles& files);

struct Tried {
    Status all{Done{}};  // what did not go; the run's absence is none of it
    Context context;
    bool logs = false;         // are there now
    bool run_is_gone = false;  // nothing was written, nor will be
};
// Tries to bring an attempt's rest into its run's directory. It blocks: it runs on the pool. A run that was removed, or
// whose directory is another run's by now, is not written to.
Tried deliver(const PendingDelivery& delivery, const NodeFacts& facts);

// Whether an attempt whose workers were launched finds its run where it was: a path may be without its mount after a
// restart of its node, and what is written there is lost. It reads one small file of the storage, and blocks.
Status run_is_there(const AttemptContext& context, std::uint32_t number);

}  // namespace rtrain::agent
