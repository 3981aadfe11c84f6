// Writes how an attempt and a run ended into the run's directory.

#include "storage/checkpoint/layout.hpp"

namespace rtrain::storage {

using nlohmann::json;

namespace {

json or_null(const std::optional<std::int32_t>& value) { return value ? json(*value) : json(); }

template <class T>
std::optional<T> or_none(const json& value) {
    return value.is_null() ? std::nullopt : std::optional<T>(integer_in<T>(value));
}

json ranks_json(const AttemptEnd& end) {
    json ranks = json::object();
    for (const auto& [rank, rank_end] : end.ranks)
        ranks[std::to_string(rank)] = {{"exit_code", or_null(rank_end.exit_code)},
                                       {"signal", or_null(rank_end.signal)},
                                       {"detail", rank_end.detail}};
    return ranks;
}

}  // namespace

std::string encode(const AttemptEnd& end) {
    const json value = {{"schema_version", 1},
                        {"attempt", end.number},
                        {"state", end.state},
                        {"cause", end.cause},
                        {"first_failure_rank", end.first_failure ? json(*end.first_failure) : json()},
                        {"ranks", ranks_json(end)},
                        {"started_wall_ms", end.started_wall_ms},
                        {"ended_wall_ms", end.ended_wall_ms}};
    return file_text(value);
}

Status write_end(Store& store, const std::string& run_name, const AttemptEnd& end) {
    return store.put(end_path(run_name, end.number), encode(end));
}

Result<AttemptEnd> decode_end(const std::string& text, const std::string& path) {
    const auto value = parse_object(text, path);
    if (!value) return value.error();
    try {
        AttemptEnd end{.number = integer_in<std::uint32_t>(value->at("attempt")),
                       .state = value->at("state").get<std::string>(),
                       .cause = value->at("cause").get<std::string>(),
                       .first_failure = or_none<std::uint32_t>(value->at("first_failure_rank")),
                       .started_wall_ms = integer_in<std::int64_t>(value->at("started_wall_ms")),
                       .ended_wall_ms = integer_in<std::int64_t>(value->at("ended_wall_ms")),
                       .ranks = {}};
        for (const auto& [rank, rank_end] : value->at("ranks").items())
            end.ranks[static_cast<std::uint32_t>(std::stoul(rank))] = {
                .exit_code = or_none<std::int32_t>(rank_end.at("exit_code")),
                .signal = or_none<std::int32_t>(rank_end.at("signal")),
                .detail = rank_end.at("detail").get<std::string>()};
        return end;
    } catch (const std::exception& wrong) { return Error{ErrorCode::damaged, path + ": " + wrong.what(), ""}; }
}

Result<AttemptEnd> read_end(Store& store, const std::string& run_name, std::uint32_t number) {
    const auto text = store.get(end_path(run_name, number));
    if (!text) return text.error();
    return decode_end(*text, end_path(run_name, number));
}

Status write_result(Store& store, const std::string& run_name, const RunOutcome& outcome) {
    const json value = {{"schema_version", 1},
                        {"name", outcome.name},
                        {"cluster_id", outcome.cluster_id},
                        {"run_id", outcome.run_id},
                        {"state", outcome.state},
                        {"reason", outcome.reason},
                        {"attempts", outcome.attempts},
                        {"failures", outcome.failures},
                        {"checkpoint", outcome.checkpoint.empty() ? json() : json(outcome.checkpoint)},
                        {"metrics", embedded(outcome.metrics_json)},
                        {"warnings", outcome.warnings},
                        {"submitted_wall_ms", outcome.submitted_wall_ms},
                        {"ended_wall_ms", outcome.ended_wall_ms}};
    return store.put(run_name + "/result.json", file_text(value));
}

}  // namespace rtrain::storage
