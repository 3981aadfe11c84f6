// Follows the lines of a run until it ends or Ctrl-C detaches. A restart of the head does not end it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cmd/client/api.hpp"
#include "cmd/text/line_pattern.hpp"

namespace rtrain::cmd {

struct LogWish {
    std::string rank, attempt, stream;  // values of the API's parameters with these names; empty: the API's default
    std::int64_t since_wall_ms = 0;     // wall clock; only later lines; 0: from the beginning
    std::int64_t tail = -1;             // number of last lines; -1: all
    std::optional<LinePattern> grep;
    bool prefix = true;       // true: prints "rank 3 | " before each line
    bool names = false;       // true: prints the run's name before each line
    bool timestamps = false;  // true: prints the node's time before each line
    enum class Show { as_they_come, at_the_end, never } show = Show::as_they_come;
};
// Sets which ranks are shown, by the job's `logs.show`, if the user named none. "auto" shows all ranks of up to 16,
// otherwise rank 0.
void choose_shown(LogWish& wish, const nlohmann::json& run);
std::string log_target(const std::string& run, const LogWish& wish, bool follow);
// prints the lines; for programs as one list
void print_lines(Invocation& call, const LogWish& wish, std::vector<nlohmann::json> lines);
void print_line(Invocation& call, const LogWish& wish, const nlohmann::json& line);

// Returns the run after its end. Returns nullopt after Ctrl-C, and has then printed that the run continues.
Result<std::optional<nlohmann::json>> follow_run(Invocation& call, Api& api, const nlohmann::json& run,
                                                 const LogWish& wish);
// Prints the last lines of the ranks that failed.
void print_failed(Invocation& call, Api& api, LogWish wish, const std::string& run_id);
// Returns the event of the run's newest notice from an agent ("ranks [1] have not come ..."); null if there is none.
Result<nlohmann::json> newest_notice(Api& api, const std::string& run_id);
// Returns, for each node, the newest event that describes how the node started the run's workers. Nodes without such an
// event are left out.
Result<nlohmann::json> newest_starts(Api& api, const std::string& run_id);
// Returns the exit code of `submit -f`: 0 or 1. With `propagate`, returns the exit code of the first failed rank.
int followed_exit(Api& api, const nlohmann::json& run, bool propagate);
int detached(Invocation& call, const std::string& run);  // prints how to stop the run; returns 130

}  // namespace rtrain::cmd
