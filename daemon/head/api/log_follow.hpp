// Streams the logs of a run, for the route of logs.
#pragma once

#include "daemon/head/logs/log_intake.hpp"
#include "daemon/head/logs/log_lines.hpp"
#include "daemon/head/requests/exchange.hpp"

namespace rtrain::head {

struct LogFollowing {
    RunId run;
    LogQuestion question;
};
void follow_logs(Exchange& exchange, const LogIntake& logs, const state::SqliteJournal& journal, Feeds& feeds,
                 const LogFollowing& following);

}  // namespace rtrain::head
