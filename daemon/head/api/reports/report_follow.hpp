// Streams a run's reports: the past ones, then each new one, until the run has ended.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/head/loop/feeds.hpp"
#include "daemon/head/requests/exchange.hpp"
#include "daemon/head/view/metric_json.hpp"

namespace rtrain::head {

struct MetricQuestion {
    RankChoice ranks;
    std::string key;
};

struct ReportFollowing {
    RunId run;
    std::uint64_t after = 0;  // position of the last report that the reader has
    MetricQuestion question;
};
void follow_reports(Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds, ReportFollowing following);

}  // namespace rtrain::head
