// The bounds of a job spec and of a query, each with its reason. The head reads specs of every user with a token.
// Without bounds, a long request would block the head's loop, or fill its memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rtrain::spec {

// ---- a text before its fields are known
inline constexpr int nesting_most = 32;
inline constexpr std::size_t file_bytes_most = 1 << 20;
// canonical JSON is longer than the file, since it escapes characters and contains every field
inline constexpr std::size_t json_bytes_most = 4 * file_bytes_most;
inline constexpr std::size_t values_most = 100'000;  // values of one document, at all levels
inline constexpr std::size_t problems_most = 100;    // the most problems that are listed; further ones are only counted

// ---- a job
inline constexpr std::uint32_t workers_most = 16'384;  // workers of one run: eight for each of 2,000 nodes
inline constexpr std::size_t selector_values_most = 256;
// The most bytes of amounts and label selectors of all workers, in one run and in one job array.
inline constexpr std::size_t demand_bytes_most = 32 << 20;
inline constexpr std::size_t array_runs_most = 10'000;
inline constexpr std::size_t array_bytes_most = 256 << 20;  // bytes of the jobs and workers of all runs of an array
// The bytes that the head stores of a run beside its job: its record, and the indexes of its name, key and state.
inline constexpr std::size_t bytes_of_run = 4'096;
inline constexpr std::size_t bytes_of_name =
    96;  // bytes of an entry for each node that a run names: the entry in a set, beside the job's text

struct ListLimit {
    std::string_view path;  // path of the field
    std::size_t most;
};
// One entry for each field that takes a list or a map. A test compares them with the table of fields.
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
    ListLimit{"scaling.nodes", 2'048},  // a label can select more nodes than a list of this length
    ListLimit{"scaling.exclude_nodes", 2'048},
    ListLimit{"scaling.trainer_resources", 64},
};
constexpr std::size_t list_limit(std::string_view path) {
    for (const ListLimit& limit : list_limits)
        if (limit.path == path) return limit.most;
    return 0;  // 0: the field takes neither a list nor a map
}

// ---- a query
inline constexpr std::size_t ranges_most = 1'000;  // the most ranges in rank= and attempt=; "0,3-5" has two
inline constexpr std::size_t request_bytes_most = json_bytes_most + (2 << 20);  // bytes of JSON: a job and its secrets
inline constexpr std::size_t request_lines_most = 16 << 10;  // the most lines with positions of the job's fields
inline constexpr std::size_t request_text_most = 4'096;  // bytes of a name, a path or a key that is sent with the job
inline constexpr std::size_t request_values_most = 200'000;  // values in a request's JSON, including the job

}  // namespace rtrain::spec
