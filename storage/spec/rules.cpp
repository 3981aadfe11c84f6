// The table of fields. A new field is a row here, and nothing else.

#include "storage/spec/rules.hpp"

#define TEXT R"({"type":"string"})"
#define SOME_TEXT R"({"type":"string","minLength":1})"
#define FLAG R"({"type":"boolean"})"
#define DURATION R"({"type":"string","pattern":"^([0-9]+(ms|s|m|h|d))+$"})"
#define NAME R"({"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"})"
#define ENV_NAME R"({"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_]*$"})"
#define TEXT_OR_NUMBER R"({"type":["string","number"]})"
#define AMOUNTS                                                                                       \
    R"({"type":"object","propertyNames":{"minLength":1,"pattern":"^[A-Za-z0-9][A-Za-z0-9._:/-]*$"},)" \
    R"("additionalProperties":{"anyOf":[{"type":"number","minimum":0},)"                              \
    R"({"type":"string","pattern":"^([0-9]+([.][0-9]+)?|[.][0-9]+)([KMGT]i)?$"}]}})"
#define NAMES R"({"type":"array","items":{"type":"string","minLength":1}})"

namespace rtrain::spec {
namespace {

using nlohmann::json;
constexpr const char* a_duration = "a duration such as 90s, 5m or 1h30m";
constexpr const char* a_flag = "true or false";

std::vector<std::string> texts(const Value& list) {
    std::vector<std::string> out;
    for (const Value& item : list.items) out.push_back(item.text);
    return out;
}
const std::string& scalar(const Value& value) { return value.kind == Kind::number ? value.raw : value.text; }
std::map<std::string, std::string> text_map(const Value& map) {
    std::map<std::string, std::string> out;
    for (const Entry& entry : map.entries) out[entry.key] = scalar(entry.value);
    return out;
}
json or_null(const std::string& text) { return text.empty() ? json() : json(text); }
json duration_or_null(const std::optional<std::int64_t>& ms) { return ms ? json(duration_text(*ms)) : json(); }
bool is_true(const Value& value) { return value.text == "true"; }

std::int64_t taken_duration(Reading& reading, const std::string& path, const Value& value, std::string_view text) {
    const auto ms = duration_ms(text);
    if (!ms) reading.problem(path, value, shown(text) + " is beyond 64 bits of milliseconds", "");
    return ms.value_or(0);
}

Resources taken_amounts(Reading& reading, const std::string& path, const Value& map) {
    Resources out;
    for (const Entry& entry : map.entries) {
        const auto amount = amount_from(entry.key, entry.value);
        if (!amount)
            reading.problem(below(path, entry.key), entry.value, amount.error().message, amount.error().next);
        else if (entry.key == gpu_key && amount->ticks > Amount::per_unit && amount->ticks % Amount::per_unit != 0)
            reading.problem(below(path, entry.key), entry.value, "more than one GPU must be a whole number of them",
                            "");
        else if (amount->ticks != 0)
            out[entry.key] = *amount;
    }
    return out;
}

json amounts_json(const Resources& resources) {
    json out = json::object();
    for (const auto& [name, amount] : resources) out[name] = to_text(amount);
    return out;
}

json given_resources(const Job& job) {
    json out = amounts_json(job.resources_per_worker);
    // No CPU and no GPU would be read as one CPU, and use_gpu without GPU as one GPU.
    if (!out.contains("CPU")) out["CPU"] = "0";
    return out;
}

void take_workers(Reading& reading, const Value& value) {
    constexpr std::int64_t most = 1'000'000;
    const std::size_t dots = value.text.find("..");
    const auto number = [&](const std::string& text) {
        return text.size() > 9 ? most + 1 : whole_number(Value{.kind = Kind::number, .text = text});
    };
    const std::int64_t low = number(value.kind == Kind::string ? value.text.substr(0, dots) : value.text);
    const std::int64_t high = dots == std::string::npos ? low : number(value.text.substr(dots + 2));
    if (low == 0)
        return reading.problem("scaling.workers", value,
                               "0 workers means \"in this process\", which only a Python driver can do",
                               "use 1 or more");
    if (low > high)
        return reading.problem("scaling.workers", value, "the range " + value.text + " begins above its end", "");
    if (high > most)
        return reading.problem("scaling.workers", value, "at most " + std::to_string(most) + " workers", "");
    reading.job.workers = static_cast<std::uint32_t>(low);
    reading.job.workers_max = static_cast<std::uint32_t>(high);
}

json give_workers(const Job& job) {
    if (job.workers == job.workers_max) return job.workers;
    return std::to_string(job.workers) + ".." + std::to_string(job.workers_max);
}

void take_selector(Reading& reading, const Value& map) {
    reading.job.label_selector.clear();
    for (const Entry& entry : map.entries) {
        auto condition = parse_label_condition(entry.key, scalar(entry.value));
        if (condition)
            reading.job.label_selector.push_back(std::move(*condition));
        else
            reading.problem(below("scaling.label_selector", entry.key), entry.value, condition.error().message,
                            condition.error().next);
    }
    std::sort(reading.job.label_selector.begin(), reading.job.label_selector.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
}

json give_selector(const Job& job) {
    json out = json::object();
    for (const LabelCondition& condition : job.label_selector) {
        std::string list;
        for (const std::string& value : condition.values) list += (list.empty() ? "" : ",") + value;
        out[condition.key] =
            std::string(condition.negated ? "!" : "") + (condition.values.size() == 1 ? list : "in(" + list + ")");
    }
    return out;
}

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
}

void take_limit(Reading& reading, const std::string& path, const Value& value, std::optional<std::int64_t>& into) {
    into = taken_duration(reading, path, value, value.text);
    if (*into == 0)
        reading.problem(path, value, "a limit of nothing would end the run at once", "leave it out: no limit");
}

void take_entrypoint(Reading& reading, const Value& value) {
    if (value.kind == Kind::list)
        reading.job.entrypoint = texts(value);
    else
        reading.job.entrypoint = {"sh", "-c", value.text};
}

void take_storage_path(Reading& reading, const Value& value) {
    if (value.text.starts_with("s3://") || value.text.starts_with("gs://"))
        return reading.problem("storage_path", value, "object storage is not supported by this version",
                               "use a shared directory, or leave it out: the files are then kept on the head");
    reading.job.storage_path = value.text == "cluster://" ? "" : value.text;
}

void take_stop(Reading& reading, const Value& map) {
    reading.job.stop.clear();
    for (const Entry& entry : map.entries) reading.job.stop[entry.key] = std::stod(entry.value.text);
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

using R = Reading;
using V = Value;

std::vector<Rule> general_rules() {
    return {
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
        {"setup", TEXT, "a command for the shell", [](R& r, const V& v) { r.job.setup = v.text; },
         [](const Job& j) { return or_null(j.setup); }},
        {"python.interpreter", SOME_TEXT, "a program such as python3",
         [](R& r, const V& v) { r.job.interpreter = v.text; }, [](const Job& j) { return json(j.interpreter); }},
        {"python.preload", R"({"type":"array","items":{"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_.]*$"}})",
         "a list of Python modules", [](R& r, const V& v) { r.job.preload = texts(v); },
         [](const Job& j) { return json(j.preload); }},
        {"backend.name", R"({"enum":["auto","nccl","gloo"]})", "auto, nccl or gloo",
         [](R& r, const V& v) { r.job.backend = v.text; }, [](const Job& j) { return json(j.backend); }},
        {"backend.timeout_s", R"({"type":"integer","minimum":1,"maximum":31536000})", "a whole number of seconds",
         [](R& r, const V& v) { r.job.backend_timeout_s = whole_number(v); },
         [](const Job& j) { return json(j.backend_timeout_s); }},
        {"network.interface", R"({"type":"string","pattern":"^[A-Za-z0-9._:@-]{1,15}$"})",
         "the name of a network interface such as eth0", [](R& r, const V& v) { r.job.network_interface = v.text; },
         [](const Job& j) { return or_null(j.network_interface); }},
        {"queue", NAME, "the name of a queue", [](R& r, const V& v) { r.job.queue = v.text; },
         [](const Job& j) { return json(j.queue); }},
        {"priority", R"({"type":"integer","minimum":0,"maximum":100})", "a whole number from 0 to 100",
         [](R& r, const V& v) { r.job.priority = static_cast<std::int32_t>(whole_number(v)); },
         [](const Job& j) { return json(j.priority); }},
        {"storage_path", R"x({"type":"string","pattern":"^(/|file:///|cluster://|s3://[^/]|gs://[^/])"})x",
         "an absolute path, file:///path, s3://bucket/prefix, gs://bucket/prefix or cluster://", take_storage_path,
         [](const Job& j) { return or_null(j.storage_path); }},
        {"stop", R"({"type":"object","additionalProperties":{"type":"number"}})",
         "a map of metrics and the numbers that end the run", take_stop, [](const Job& j) { return json(j.stop); }},
        {"logs.show",
         R"({"anyOf":[{"type":"string","pattern":"^(auto|all|none|failed|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$"},{"type":"integer","minimum":0}]})",
         "auto, all, none, failed, or ranks such as 0,3-5", [](R& r, const V& v) { r.job.logs_show = v.text; },
         [](const Job& j) { return json(j.logs_show); }},
        {"logs.keep", DURATION, a_duration,
         [](R& r, const V& v) { r.job.logs_keep_ms = taken_duration(r, "logs.keep", v, v.text); },
         [](const Job& j) { return json(duration_text(j.logs_keep_ms)); }},
        {"tracking",
         R"({"type":"object","propertyNames":{"enum":["mlflow","tensorboard","wandb"]},"additionalProperties":)" FLAG
         "}",
         "a map of mlflow, tensorboard or wandb and true or false", take_tracking, give_tracking},
        {"labels", R"({"type":"object","propertyNames":{"minLength":1},"additionalProperties":)" TEXT_OR_NUMBER "}",
         "a map of names and text", [](R& r, const V& v) { r.job.labels = text_map(v); },
         [](const Job& j) { return json(j.labels); }},
    };
}

std::vector<Rule> scaling_rules() {
    return {
        {"scaling.workers",
         R"({"anyOf":[{"type":"integer","minimum":0},{"type":"string","pattern":"^[0-9]+[.][.][0-9]+$"}]})",
         "a whole number, or a range such as 2..8", take_workers, give_workers},
        {"scaling.use_gpu", FLAG, a_flag, [](R& r, const V& v) { r.job.use_gpu = is_true(v); },
         [](const Job& j) { return json(j.use_gpu); }},
        {"scaling.resources_per_worker", AMOUNTS, "a map of resources and amounts such as {CPU: 1, memory: 4Gi}",
         [](R& r, const V& v) { r.job.resources_per_worker = taken_amounts(r, "scaling.resources_per_worker", v); },
         given_resources},
        {"scaling.placement", R"({"enum":["PACK","SPREAD","STRICT_PACK","STRICT_SPREAD"]})",
         "PACK, SPREAD, STRICT_PACK or STRICT_SPREAD",
         [](R& r, const V& v) { r.job.placement = strategy(v.text).value_or(Strategy::pack); },
         [](const Job& j) { return json(to_text(j.placement)); }},
        {"scaling.accelerator_type", R"({"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._-]*$"})",
         "a type such as A100", [](R& r, const V& v) { r.job.accelerator_type = v.text; },
         [](const Job& j) { return j.accelerator_type ? json(*j.accelerator_type) : json(); }},
        {"scaling.label_selector",
         R"({"type":"object","propertyNames":{"minLength":1},"additionalProperties":)" TEXT_OR_NUMBER "}",
         "a map of labels and conditions: v, !v, in(a,b) or !in(a,b)", take_selector, give_selector},
        {"scaling.nodes", NAMES, "a list of nodes", [](R& r, const V& v) { r.job.nodes = texts(v); },
         [](const Job& j) { return json(j.nodes); }},
        {"scaling.exclude_nodes", NAMES, "a list of nodes", [](R& r, const V& v) { r.job.exclude_nodes = texts(v); },
         [](const Job& j) { return json(j.exclude_nodes); }},
        {"scaling.topology", SOME_TEXT, "the name of a node label such as rack",
         [](R& r, const V& v) { r.job.topology = v.text; },
         [](const Job& j) { return j.topology ? json(*j.topology) : json(); }},
        {"scaling.wait_for_nodes", FLAG, a_flag, [](R& r, const V& v) { r.job.wait_for_nodes = is_true(v); },
         [](const Job& j) { return json(j.wait_for_nodes); }},
        {"scaling.trainer_resources", AMOUNTS, "a map of resources and amounts such as {CPU: 1}",
         [](R& r, const V& v) { r.job.trainer_resources = taken_amounts(r, "scaling.trainer_resources", v); },
         [](const Job& j) { return amounts_json(j.trainer_resources); }},
    };
}

std::vector<Rule> policy_rules() {
    return {
        {"failure.max_failures", R"({"type":"integer","minimum":-1,"maximum":2147483647})",
         "a whole number; -1: without end",
         [](R& r, const V& v) { r.job.failure.max_failures = static_cast<std::int32_t>(whole_number(v)); },
         [](const Job& j) { return json(j.failure.max_failures); }},
        {"failure.fail_fast", FLAG, a_flag, [](R& r, const V& v) { r.job.fail_fast = is_true(v); },
         [](const Job& j) { return json(j.fail_fast); }},
        {"failure.backoff", R"({"type":"string","pattern":"^([0-9]+(ms|s|m|h|d))+([.][.]([0-9]+(ms|s|m|h|d))+)?$"})",
         "a duration, or a range such as 1s..5m", take_backoff,
         [](const Job& j) {
             return json(duration_text(j.failure.backoff_first.ms) + ".." + duration_text(j.failure.backoff_last.ms));
         }},
        {"failure.avoid_bad_nodes", FLAG, a_flag, [](R& r, const V& v) { r.job.failure.avoid_bad_nodes = is_true(v); },
         [](const Job& j) { return json(j.failure.avoid_bad_nodes); }},
        {"failure.hang_timeout", DURATION, a_duration,
         [](R& r, const V& v) { take_limit(r, "failure.hang_timeout", v, r.job.hang_timeout_ms); },
         [](const Job& j) { return duration_or_null(j.hang_timeout_ms); }},
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
}

}  // namespace

const std::vector<Rule>& rules() {
    static const std::vector<Rule> all = [] {
        std::vector<Rule> list = general_rules();
        for (const auto& more : {scaling_rules(), policy_rules()}) list.insert(list.end(), more.begin(), more.end());
        return list;
    }();
    return all;
}

const Rule* rule_of(std::string_view path) {
    for (const Rule& rule : rules())
        if (rule.path == path) return &rule;
    return nullptr;
}

}  // namespace rtrain::spec
