// The head daemon: owns the cluster's state, decides, orders agents about, answers people. See README.md for the flow.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/queues.hpp"
#include "scheduler/model/result.hpp"
#include "storage/spec/limits.hpp"

namespace rtrain {

struct HeadOptions {
    std::string data_dir;
    std::string host = "127.0.0.1";
    std::uint16_t port = 7433;              // 0: any, for tests
    std::string storage_root{};             // cluster://; empty: <data_dir>/storage
    std::string name{};                     // of the cluster, for people; kept over restarts
    std::int64_t node_timeout_ms = 10'000;  // silence after which a node counts as lost
    std::int64_t heartbeat_ms = 1'000;
    std::int64_t audit_end_ms = 3'600'000;     // between two lines that tell where the audit ends
    std::int64_t join_token_ms = 3'600'000;    // validity of the join token made at each start
    std::int64_t storage_reserve = 2LL << 30;  // bytes that uploads must leave free below the storage root
    std::int64_t logs_reserve = 512LL << 20;   // bytes that workers' logs must leave free for the state beside them
    std::size_t user_bytes = spec::user_bytes_most;                           // a smaller one in tests
    std::function<std::uint64_t(const std::string& directory)> free_bytes{};  // none: ask the file system
    std::optional<Queues> queues{};                                           // none: those it has
    std::string queues_file{};                                                // where they were read, for people
};

// What is known once the head listens: enough for the join line and for the first user's context.
struct HeadStarted_ {
    std::uint16_t port = 0;
    std::string cluster_id, name;
    std::string ca;  // PEM
    std::string ca_fingerprint;
    std::string admin_token;  // of starts before anybody came in with it
    std::string join_token;   // fresh, one use
    std::int64_t join_token_expires_wall_ms = 0;
    std::vector<std::string> warnings;  // "the storage root is on tmpfs ..."
};

// Serves until SIGTERM, SIGINT or `head stop`. An Error: could not start (conflict: port or data directory taken), or a
// commit failed: then nothing of it was performed and the process must end.
Status serve_head(const HeadOptions& options, const std::function<void(const HeadStarted_&)>& ready);

}  // namespace rtrain
