// The part of the charts' history (chart_history.hpp) that runs on its own thread. Only that thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/head/history/chart_history.hpp"
#include "storage/history/report_reader.hpp"
#include "storage/history/store.hpp"

namespace rtrain::head {

constexpr std::size_t rows_at_once = 1'000;  // rows of a run that are read before the next query is answered

struct ChartHistory::Work {
    explicit Work(std::string directory) : data_dir(std::move(directory)) {}

    std::string data_dir;
    std::optional<history::Store> store;
    std::optional<history::ReportReader> reports;
    Error closed{ErrorCode::unreachable, "the charts' history is not open yet", "ask again in some seconds"};
    UsageRates rates;
    ClusterUse cluster_use;
    std::int64_t pruned_ms = 0;
    bool complained = false;

    void open(const std::set<RunId>& runs);
    void close(const Error& why);
    // Adds at most `most` new rows of the run's reports. Returns true if more rows are left.
    Result<bool> catch_up(RunId run, std::size_t most);
    void take(const HeardHeartbeat& heartbeat);
    void take(const ClusterCounts& counts);
    void upkeep(std::int64_t now_ms, std::int64_t wall_s);
    void complain(const Error& why);  // logs an error, but only the first one until the next success

    Result<std::string> answer_run(RunId run, const Question& question);
    Result<std::string> answer_usage(const Question& question);
    Result<std::string> answer_ranks(RunId run, std::uint32_t ranks, const Question& question);
    Result<history::Series> raw(RunId run, const std::string& key, const history::Window& window);
};

}  // namespace rtrain::head
