// Finds missing files of an ended run. Files are written atomically, so a file that exists is complete.
#include "cmd/client/stored.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "cmd/text/status_text.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr const char* streams[] = {"out", "err"};

std::string padded(std::int64_t number, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*lld", digits, static_cast<long long>(number));
    return text;
}

// Returns true if the head has a log line of this stream (stdout or stderr) of the rank in this attempt.
Result<bool> wrote(Api& api, const std::string& run_id, std::int64_t attempt, std::int64_t rank, const char* stream) {
    const Result<std::string> lines =
        api.bytes("/v1/runs/" + url_part(run_id) + "/logs?tail=1&attempt=" + std::to_string(attempt) +
                  "&rank=" + std::to_string(rank) + "&stream=" + stream);
    if (!lines) return lines.error();
    return !lines->empty();
}

}  // namespace

Result<std::vector<std::string>> files_missing(Api& api, const json& run, const RunStore& place) {
    const std::string id = string_of(run, "run_id");
    const Result<json> attempts = api.list("/v1/runs/" + url_part(id) + "/attempts");
    if (!attempts) return attempts.error();
    json last;
    for (const json& attempt : (*attempts)["items"])
        if (last.is_null() || attempt.value("number", 0) > last.value("number", 0)) last = attempt;
    std::vector<std::string> missing;
    if (last.is_null()) return missing;  // no attempt has ever started, so no file is expected
    const auto files = place.store->list(place.run_name);
    if (!files) return files.error();
    std::set<std::string> there;
    for (const storage::StoreEntry& file : *files) there.insert(file.path);
    const auto need = [&](const std::string& path) {
        if (!there.contains(place.run_name + "/" + path)) missing.push_back(path);
    };
    const std::int64_t number = last.value("number", std::int64_t{0});
    need("result.json");
    need("attempts/" + padded(number, 6) + "/end.json");
    for (const json& worker : last.value("workers", json::array())) {
        const std::int64_t rank = worker.value("rank", std::int64_t{0});
        for (const char* stream : streams) {
            const Result<bool> lines = wrote(api, id, number, rank, stream);
            if (!lines) return lines.error();
            if (*lines) need("logs/attempt-" + padded(number, 6) + "/rank-" + padded(rank, 5) + "." + stream);
        }
    }
    return missing;
}

}  // namespace rtrain::cmd
