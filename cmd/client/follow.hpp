// Following a run: its lines as they come, over a restart of the head, until it ends or Ctrl-C detaches.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cmd/client/api.hpp"
#include "cmd/text/line_pattern.hpp"

namespace rtrain::cmd {

struct LogWish {
    std::string rank, attempt, stream;  // as in the API; empty: its default
    std::int64_t since_wall_ms = 0;     // 0: from the beginning
    std::int64_t tail = -1;             // lines; -1: all
    std::optional<LinePattern> grep;
    bool prefix = true;       // "rank 3 | " before each line
    bool names = false;       // and before that the name of the line's run
    bool timestamps = false;  // and before that when its node saw it
    enum class Show { as_they_come, at_the_end, never } show = Show::as_they_come;
};
// What the job's `logs.show` makes of a wish that names no ranks: auto is all ranks up to 16, then rank 0.
void choose_shown(LogWish& wish, const nlohmann::json& run);
std::string log_target(const std::string& run, const LogWish& wish, bool follow);
void print_lines(Invocation& call, const LogWish& wish, std::vector<nlohmann::json> lines);  // all there are: a list
void print_line(Invocation& call, const LogWish& wish, const nlohmann::json& line);

// Returns the run as it is at its end; none after Ctrl-C (the note that it goes on has been given).
Result<std::optional<nlohmann::json>> follow_run(Invocation& call, Api& api, const nlohmann::json& run,
                                                 const LogWish& wish);
// Prints the last lines of the ranks that failed.
void print_failed(Invocation& call, Api& api, LogWish wish, const std::string& run_id);
// What an agent told of the run last ("ranks [1] have not come ..."), as the event it is; null: nothing.
Result<nlohmann::json> newest_notice(Api& api, const std::string& run_id);
// How each node started the run's workers last, where it says so: events, one a node.
Result<nlohmann::json> newest_starts(Api& api, const std::string& run_id);
// The exit code of `submit -f`: 0 or 1; with `propagate` the first failed rank's.
int followed_exit(Api& api, const nlohmann::json& run, bool propagate);
int detached(Invocation& call, const std::string& run);  // tells how to stop it; 130

}  // namespace rtrain::cmd
