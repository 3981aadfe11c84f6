// Rows of the table: the job itself, its program, and where its files go.

#include "base/bucket_secrets.hpp"
#include "storage/job_spec/fields/row_words.hpp"

namespace rtrain::spec {
namespace {

using nlohmann::json;
using R = Reading;
using V = Value;

void take_entrypoint(Reading& reading, const Value& value) {
    if (value.kind == Kind::list)
        reading.job.entrypoint = texts(value);
    else
        reading.job.entrypoint = {"sh", "-c", value.text};
}

void take_storage_path(Reading& reading, const Value& value) {
    reading.job.storage_path = value.text == "cluster://" ? "" : value.text;
    if (std::string& path = reading.job.storage_path; bucket_secrets(path) != nullptr)
        while (path.ends_with('/')) path.pop_back();  // A further slash would become part of each object's name.
}

void take_stop(Reading& reading, const Value& map) {
    reading.job.stop.clear();
    for (const Entry& entry : map.entries) reading.job.stop[entry.key] = real_number(entry.value);
}

void take_tracking(Reading& reading, const Value& map) {
    reading.job.tracking.clear();
    for (const Entry& entry : map.entries)
        if (is_true(entry.value)) reading.job.tracking.push_back(entry.key);
    std::sort(reading.job.tracking.begin(), reading.job.tracking.end());
}

json give_tracking(const Job& job) {
    json out = json::object();
    for (const std::string& name : job.tracking) out[name] = true;
    return out;
}

constexpr Rule job_rows[] = {
    {"version", R"({"const":1})", "1", [](R&, const V&) {}, [](const Job&) { return json(1); }},
    {"name", NAME, "letters, digits, '.', '_' and '-', at most 128, beginning with a letter or digit",
     [](R& r, const V& v) { r.job.name = v.text; }, [](const Job& j) { return or_null(j.name); }},
    {"entrypoint",
     R"({"anyOf":[{"type":"string","pattern":"[^ \t\r\n]"},{"type":"array","items":{"type":"string"},"minItems":1}]})",
     "a command for the shell, or a list of a program and its arguments", take_entrypoint,
     [](const Job& j) { return json(j.entrypoint); }},
    {"working_dir", SOME_TEXT, "a directory", [](R& r, const V& v) { r.job.working_dir = v.text; },
     [](const Job& j) { return or_null(j.working_dir); }},
    {"env", R"({"type":"object","propertyNames":)" ENV_NAME R"(,"additionalProperties":)" TEXT_OR_NUMBER "}",
     "a map of variable names and text", [](R& r, const V& v) { r.job.env = text_map(v); },
     [](const Job& j) { return json(j.env); }},
    {"secrets", R"({"type":"array","items":)" ENV_NAME "}", "a list of names of environment variables",
     [](R& r, const V& v) { r.job.secrets = texts(v); }, [](const Job& j) { return json(j.secrets); }},
    {"driver", FLAG, a_flag, [](R& r, const V& v) { r.job.driver = is_true(v); },
     [](const Job& j) { return json(j.driver); }},
    {"setup", TEXT, "a command for the shell", [](R& r, const V& v) { r.job.setup = v.text; },
     [](const Job& j) { return or_null(j.setup); }},
    {"python.interpreter", SOME_TEXT, "a program such as python3", [](R& r, const V& v) { r.job.interpreter = v.text; },
     [](const Job& j) { return json(j.interpreter); }},
    {"python.preload", R"({"type":"array","items":{"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_.]*$"}})",
     "a list of Python modules", [](R& r, const V& v) { r.job.preload = texts(v); },
     [](const Job& j) { return json(j.preload); }},
    {"backend.name", R"({"enum":["auto","nccl","gloo","tensorflow","xgboost"]})",
     "auto, nccl, gloo, tensorflow or xgboost", [](R& r, const V& v) { r.job.backend = v.text; },
     [](const Job& j) { return json(j.backend); }},
    {"backend.timeout_s", R"({"type":"integer","minimum":1,"maximum":31536000})", "a whole number of seconds",
     [](R& r, const V& v) { r.job.backend_timeout_s = whole_number(v); },
     [](const Job& j) { return json(j.backend_timeout_s); }},
    {"network.interface", R"({"type":"string","pattern":"^[A-Za-z0-9._:@-]{1,15}$"})",
     "the name of a network interface such as eth0", [](R& r, const V& v) { r.job.network_interface = v.text; },
     [](const Job& j) { return or_null(j.network_interface); }},
    {"queue", NAME, "the name of a queue", [](R& r, const V& v) { r.job.queue = v.text; },
     [](const Job& j) { return json(j.queue); }},
    {"after",
     R"({"type":"array","items":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._-]*(:(succeeded|ended))?$"}})",
     "a list of runs such as prepare, or prepare:ended", [](R& r, const V& v) { r.job.after = texts(v); },
     [](const Job& j) { return json(j.after); }},
    {"priority", R"({"type":"integer","minimum":0,"maximum":100})", "a whole number from 0 to 100",
     [](R& r, const V& v) { r.job.priority = static_cast<std::int32_t>(whole_number(v)); },
     [](const Job& j) { return json(j.priority); }},
    {"storage_path",
     R"x({"type":"string","pattern":"^(/|file:///|cluster://|s3://[^/]|gs://[^/]|az://[^/]|abfss?://[^/])"})x",
     "an absolute path, file:///path, cluster://, or a bucket: s3://bucket/prefix, gs://, az://, abfss://",
     take_storage_path, [](const Job& j) { return or_null(j.storage_path); }},
    {"stop", R"({"type":"object","additionalProperties":{"type":"number"}})",
     "a map of metrics and the numbers that end the run", take_stop, [](const Job& j) { return json(j.stop); }},
    {"logs.show",
     R"({"anyOf":[{"type":"string","pattern":"^(auto|all|none|failed|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$"},{"type":"integer","minimum":0}]})",
     "auto, all, none, failed, or ranks such as 0,3-5",
     [](R& r, const V& v) { r.job.logs_show = v.kind == Kind::number ? std::to_string(whole_number(v)) : v.text; },
     [](const Job& j) { return json(j.logs_show); }},
    {"logs.keep", DURATION, a_duration,
     [](R& r, const V& v) { r.job.logs_keep_ms = taken_duration(r, "logs.keep", v, v.text); },
     [](const Job& j) { return json(duration_text(j.logs_keep_ms)); }},
    {"logs.max",
     R"({"anyOf":[{"type":"integer","minimum":1024,"maximum":1000000000000000},{"type":"string","pattern":"^[1-9][0-9]{0,5}[KMGT]iB?$"}]})",
     "a number of bytes from 1024, or such as 512Mi or 10Gi",
     [](R& r, const V& v) { r.job.logs_max_bytes = v.kind == Kind::number ? whole_number(v) : byte_count(v.text); },
     [](const Job& j) { return byte_count_json(j.logs_max_bytes); }},
    {"tracking",
     R"({"type":"object","propertyNames":{"enum":["mlflow","tensorboard","wandb"]},"additionalProperties":)" FLAG "}",
     "a map of mlflow, tensorboard or wandb and true or false", take_tracking, give_tracking},
    {"labels", R"({"type":"object","propertyNames":{"minLength":1},"additionalProperties":)" TEXT_OR_NUMBER "}",
     "a map of names and text", [](R& r, const V& v) { r.job.labels = text_map(v); },
     [](const Job& j) { return json(j.labels); }},
};

}  // namespace

std::span<const Rule> job_rules() { return job_rows; }

}  // namespace rtrain::spec
