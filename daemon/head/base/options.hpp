// The options of a head.
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
    std::uint16_t port = 7433;              // 0: any port, for tests
    std::string storage_root{};             // directory of cluster://; empty: <data_dir>/storage
    std::vector<std::string> page_names{};  // the head's host names in browsers' addresses
    bool again = false;                     // restarted by its supervisor: the first admin's token stays unchanged
    bool new_authority = false;             // makes an authority also for records that had another one
    std::string name{};                     // the cluster's name, for people; kept over restarts
    std::int64_t node_timeout_ms = 10'000;  // a node without messages for this time counts as lost
    std::int64_t heartbeat_ms = 1'000;
    std::int64_t audit_end_ms = 3'600'000;     // interval of log lines about the end of the audit
    std::int64_t join_token_ms = 3'600'000;    // validity of the join token that the first start makes
    std::int64_t storage_reserve = 2LL << 30;  // bytes that uploads must leave free below the storage root
    // Bytes that workers' logs must leave free for the state on the same disk.
    std::int64_t logs_reserve = 512LL << 20;
    std::optional<head::KeptBytes> user_limit{};  // limit of each user; nullopt: limits.hpp, less on a small disk
    std::size_t user_live_runs = head::limits::user_live_runs;                // smaller in tests
    std::size_t user_streams = head::limits::user_streams;                    // smaller in tests
    std::function<std::uint64_t(const std::string& directory)> free_bytes{};  // null: the file system's free bytes
    std::optional<Queues> queues{};                                           // nullopt: the recorded queues
    std::string queues_text{};                                                // the content of the queues file
    // The path of the queues file, for messages.
    std::string queues_file{};
    std::optional<spec::AutoscaleRules> autoscale{};  // nullopt: no autoscaling
    std::int64_t autoscale_every_ms = 5'000;          // interval of the autoscaler's looks
    std::function<void()> alive{};                    // called by the loop itself
    std::int64_t alive_every_ms = 0;                  // interval of `alive`
};

}  // namespace rtrain
