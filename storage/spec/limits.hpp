// Every bound of a job spec and of a query, with a line of reason each. The head reads specs for anybody with a token:
// without bounds one request would hold its loop, or its memory, for as long as the text makes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rtrain::spec {

// ---- a text before its fields are known
inline constexpr int nesting_most = 32;
inline constexpr std::size_t file_bytes_most = 1 << 20;
inline constexpr std::size_t json_bytes_most = 4 * file_bytes_most;  // canonical JSON escapes and has every field
inline constexpr std::size_t values_most = 100'000;                  // of a document, at all levels
inline constexpr std::size_t problems_most = 100;                    // listed; the rest is counted

// ---- a job
inline constexpr std::uint32_t workers_most = 16'384;  // of a run: eight for each of 2,000 nodes
inline constexpr std::size_t selector_values_most = 256;
// Each worker has its amounts and its label selector: so many bytes of them in one run, and in one job array.
inline constexpr std::size_t demand_bytes_most = 32 << 20;
inline constexpr std::size_t array_runs_most = 10'000;
inline constexpr std::size_t array_bytes_most = 256 << 20;  // of all its runs' jobs and workers
// The bytes of all runs that the head knows of one user, also of those that have ended: some four million workers.
inline constexpr std::size_t user_bytes_most = 512 << 20;
inline constexpr std::size_t bytes_of_name =
    96;  // of a node that a run names: its place in a set, beside the job's text

struct ListLimit {
    std::string_view path;  // of the row
    std::size_t most;
};
// One for each row that takes a list or a map; a test compares them with the table of fields.
inline constexpr std::array list_limits = {
    ListLimit{"entrypoint", 4'096},
    ListLimit{"env", 1'024},
    ListLimit{"secrets", 256},
    ListLimit{"python.preload", 256},
    ListLimit{"after", 256},
    ListLimit{"stop", 64},
    ListLimit{"tracking", 16},
    ListLimit{"labels", 256},
    ListLimit{"scaling.resources_per_worker", 64},
    ListLimit{"scaling.label_selector", 64},
    ListLimit{"scaling.worker_selectors", 2'048},
    ListLimit{"scaling.nodes", 2'048},  // more than that are named by a label
    ListLimit{"scaling.exclude_nodes", 2'048},
    ListLimit{"scaling.trainer_resources", 64},
};
constexpr std::size_t list_limit(std::string_view path) {
    for (const ListLimit& limit : list_limits)
        if (limit.path == path) return limit.most;
    return 0;  // none: the row takes neither
}

// ---- a query
inline constexpr std::size_t ranges_most = 1'000;  // of rank= and attempt=, "0,3-5" has two
inline constexpr std::size_t request_bytes_most = json_bytes_most + (2 << 20);  // of JSON: a job, and its secrets
inline constexpr std::size_t request_lines_most = 16 << 10;                     // where the fields of a job stand
inline constexpr std::size_t request_text_most = 4'096;      // a name, a path or a key beside the job
inline constexpr std::size_t request_values_most = 200'000;  // of a request's JSON, the job included

}  // namespace rtrain::spec
