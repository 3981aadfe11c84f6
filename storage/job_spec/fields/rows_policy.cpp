// Rows of the table: failures, checkpoints and limits.

#include "storage/job_spec/fields/row_words.hpp"

namespace rtrain::spec {
namespace {

using nlohmann::json;
using R = Reading;
using V = Value;

void take_backoff(Reading& reading, const Value& value) {
    const std::size_t dots = value.text.find("..");
    const std::int64_t first = taken_duration(reading, "failure.backoff", value, value.text.substr(0, dots));
    const std::int64_t last = dots == std::string::npos
                                  ? first
                                  : taken_duration(reading, "failure.backoff", value, value.text.substr(dots + 2));
    if (first > last)
        return reading.problem("failure.backoff", value, "the range " + value.text + " begins above its end", "");
    reading.job.failure.backoff_first = {first};
    reading.job.failure.backoff_last = {last};
    reading.job.failure.backoff_set = true;
}

json shown_backoff(const FailurePolicy& failure) {
    if (!failure.backoff_set) return {};
    return duration_text(failure.backoff_first.ms) + ".." + duration_text(failure.backoff_last.ms);
}

void take_limit(Reading& reading, const std::string& path, const Value& value, std::optional<std::int64_t>& into) {
    into = taken_duration(reading, path, value, value.text);
    if (*into == 0)
        reading.problem(path, value, "a limit of nothing would end the run at once", "leave it out: no limit");
}

constexpr Rule policy_rows[] = {
    {"failure.max_failures", R"({"type":"integer","minimum":-1,"maximum":2147483647})",
     "a whole number; -1: without end",
     [](R& r, const V& v) { r.job.failure.max_failures = static_cast<std::int32_t>(whole_number(v)); },
     [](const Job& j) { return json(j.failure.max_failures); }},
    {"failure.fail_fast", FLAG, a_flag, [](R& r, const V& v) { r.job.failure.fail_fast = is_true(v); },
     [](const Job& j) { return json(j.failure.fail_fast); }},
    {"failure.backoff", R"({"type":"string","pattern":"^([0-9]+(ms|s|m|h|d))+([.][.]([0-9]+(ms|s|m|h|d))+)?$"})",
     "a duration, or a range such as 1s..5m; null: none after an attempt that committed or ran for 30 s, else 1s..5m",
     take_backoff, [](const Job& j) { return shown_backoff(j.failure); }},
    {"failure.avoid_bad_nodes", FLAG, a_flag, [](R& r, const V& v) { r.job.failure.avoid_bad_nodes = is_true(v); },
     [](const Job& j) { return json(j.failure.avoid_bad_nodes); }},
    {"failure.hang_timeout", DURATION, a_duration,
     [](R& r, const V& v) { take_limit(r, "failure.hang_timeout", v, r.job.hang_timeout_ms); },
     [](const Job& j) { return duration_or_null(j.hang_timeout_ms); }},
    {"failure.isolation_timeout", DURATION, a_duration,
     [](R& r, const V& v) { take_limit(r, "failure.isolation_timeout", v, r.job.isolation_timeout_ms); },
     [](const Job& j) { return duration_or_null(j.isolation_timeout_ms); }},
    {"checkpoint.num_to_keep", R"({"type":"integer","minimum":1,"maximum":4294967295})",
     "a whole number from 1, or null: all",
     [](R& r, const V& v) { r.job.retention.num_to_keep = static_cast<std::uint32_t>(whole_number(v)); },
     [](const Job& j) { return j.retention.num_to_keep ? json(*j.retention.num_to_keep) : json(); }},
    {"checkpoint.score_attribute", SOME_TEXT, "the name of a metric",
     [](R& r, const V& v) { r.job.retention.score_attribute = v.text; },
     [](const Job& j) { return or_null(j.retention.score_attribute); }},
    {"checkpoint.score_order", R"({"enum":["max","min"]})", "max or min",
     [](R& r, const V& v) { r.job.retention.higher_is_better = v.text == "max"; },
     [](const Job& j) { return json(j.retention.higher_is_better ? "max" : "min"); }},
    {"checkpoint.keep_latest", R"({"enum":["always","until_success"]})", "always or until_success",
     [](R& r, const V& v) { r.job.retention.latest_until_success = v.text == "until_success"; },
     [](const Job& j) { return json(j.retention.latest_until_success ? "until_success" : "always"); }},
    {"checkpoint.upload", R"({"enum":["async","sync","none"]})", "async, sync or none",
     [](R& r, const V& v) { r.job.upload = v.text; }, [](const Job& j) { return json(j.upload); }},
    {"checkpoint.on_drain", FLAG, a_flag, [](R& r, const V& v) { r.job.checkpoint_on_drain = is_true(v); },
     [](const Job& j) { return json(j.checkpoint_on_drain); }},
    {"limits.wall_time", DURATION, a_duration,
     [](R& r, const V& v) { take_limit(r, "limits.wall_time", v, r.job.wall_time_ms); },
     [](const Job& j) { return duration_or_null(j.wall_time_ms); }},
    {"limits.queue_time", DURATION, a_duration,
     [](R& r, const V& v) { take_limit(r, "limits.queue_time", v, r.job.queue_time_ms); },
     [](const Job& j) { return duration_or_null(j.queue_time_ms); }},
    {"limits.stop_grace", DURATION, a_duration,
     [](R& r, const V& v) { r.job.stop_grace_ms = taken_duration(r, "limits.stop_grace", v, v.text); },
     [](const Job& j) { return json(duration_text(j.stop_grace_ms)); }},
};

}  // namespace

std::span<const Rule> policy_rules() { return policy_rows; }

}  // namespace rtrain::spec
