// The options that a head is started with.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/head/base/limits.hpp"
#include "daemon/head/base/user_bytes.hpp"
#include "scheduler/model/queues.hpp"
#include "storage/job_spec/fields/autoscale.hpp"

namespace rtrain {

namespace head {
inline constexpr const char* storage_root_setting = "storage_root";  // empty: <data_dir>/storage
}

struct HeadOptions {
    std::string data_dir;
    std::string host = "127.0.0.1";
    std::uint16_t port = 7433;              // 0: any, for tests
    std::string storage_root{};             // cluster://; empty: <data_dir>/storage
    std::vector<std::string> page_names{};  // of the head, in browsers' addresses
    bool again = false;                     // by its supervisor: the first admin's token stays as it is
    bool new_authority = false;             // makes one also for records that had another
    std::string name{};                     // of the cluster, for people; kept over restarts
    std::int64_t node_timeout_ms = 10'000;  // silence after which a node counts as lost
    std::int64_t heartbeat_ms = 1'000;
    std::int64_t audit_end_ms = 3'600'000;        // between two lines that tell where the audit ends
    std::int64_t join_token_ms = 3'600'000;       // validity of the join token that the first start makes
    std::int64_t storage_reserve = 2LL << 30;     // bytes that uploads must leave free below the storage root
    std::int64_t logs_reserve = 512LL << 20;      // bytes that workers' logs must leave free for the state beside them
    std::optional<head::KeptBytes> user_limit{};  // of each user; none: limits.hpp, less on a small disk
    std::size_t user_live_runs = head::limits::user_live_runs;                // a smaller one in tests
    std::size_t user_streams = head::limits::user_streams;                    // likewise
    std::function<std::uint64_t(const std::string& directory)> free_bytes{};  // none: ask the file system
    std::optional<Queues> queues{};                                           // none: those it has
    std::string queues_text{};                                                // the file's content
    std::string queues_file{};                                                // where they were read, for people
    std::optional<spec::AutoscaleRules> autoscale{};                          // none: nobody is ordered or let go
    std::int64_t autoscale_every_ms = 5'000;                                  // between two looks
    std::function<void()> alive{};                                            // called by the loop itself ...
    std::int64_t alive_every_ms = 0;                                          // ... each time this much has passed
};

}  // namespace rtrain
