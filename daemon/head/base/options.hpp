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
// key of the setting with the storage root; an empty value: <data_dir>/storage
inline constexpr const char* storage_root_setting = "storage_root";
}  // namespace head

struct HeadOptions {
    std::string data_dir;
    std::string host = "127.0.0.1";
    std::uint16_t port = 7433;              // 0: any port, for tests
    std::string storage_root{};             // directory of cluster://; empty: <data_dir>/storage
    std::vector<std::string> page_names{};  // host names of the head by which browsers may address it
    bool again = false;  // true: the head's supervisor has restarted it, so the first admin's token stays unchanged
    bool new_authority = false;             // true: makes a new authority even if the records belong to an earlier one
    std::string name{};                     // the cluster's name, for people; empty: the stored name
    std::int64_t node_timeout_ms = 10'000;  // a node without messages for this time counts as lost
    std::int64_t heartbeat_ms = 1'000;
    std::int64_t audit_end_ms = 3'600'000;     // ms between two log lines about the end of the audit
    std::int64_t join_token_ms = 3'600'000;    // ms; validity of the join token that the first start makes
    std::int64_t storage_reserve = 2LL << 30;  // bytes that uploads must leave free below the storage root
    // Bytes that workers' logs must leave free for the state on the same disk.
    std::int64_t logs_reserve = 512LL << 20;
    // the most bytes of each user; nullopt: those of limits.hpp, less on a small disk
    std::optional<head::KeptBytes> user_limit{};
    std::size_t user_live_runs = head::limits::user_live_runs;  // the most live runs of a user; smaller in tests
    std::size_t user_streams = head::limits::user_streams;      // the most streams of a user; smaller in tests
    // returns the free bytes of a directory's disk; null: asks the file system
    std::function<std::uint64_t(const std::string& directory)> free_bytes{};
    std::optional<Queues> queues{};  // rules of the queues; nullopt: the recorded ones
    std::string queues_text{};       // the content of the queues file
    // The path of the queues file, for messages.
    std::string queues_file{};
    std::optional<spec::AutoscaleRules> autoscale{};  // nullopt: no autoscaling
    std::int64_t autoscale_every_ms = 5'000;          // ms between two checks of the autoscaler
    std::function<void()> alive{};    // called by the loop at intervals, so that it shows that the loop runs
    std::int64_t alive_every_ms = 0;  // ms between two calls of `alive`
};

}  // namespace rtrain
