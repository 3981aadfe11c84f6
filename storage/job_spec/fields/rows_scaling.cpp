// Rows of the table: the number of workers, their resources, and their placement (scaling).

#include "storage/job_spec/fields/row_words.hpp"

namespace rtrain::spec {
namespace {

using nlohmann::json;
using R = Reading;
using V = Value;

// Returns the resource that the user probably means with a name such as "gpus" or "cpu"; empty if the name is right.
// Few nodes offer a resource "cpu", so a job that asks for one would wait for ever.
std::string meant_resource(const std::string& name) {
    std::string word;
    for (const char c : name) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word.ends_with('s')) word.pop_back();
    for (const std::string_view known : {cpu_key, gpu_key, memory_key}) {
        std::string lower;
        for (const char c : known) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (word == lower && name != known) return std::string(known);
    }
    return "";
}

// Returns true if the amount of memory is below 1 MiB. Such a number has probably lost its unit, and a worker with so
// little memory would end at once.
bool too_little_memory(Amount amount) { return amount.ticks > 0 && amount.ticks < (Amount::per_unit << 20); }

std::string shown_value(const Value& value) { return shown(value.kind == Kind::number ? value.raw : value.text); }

Resources taken_amounts(Reading& reading, const std::string& path, const Value& map) {
    Resources out;
    for (const Entry& entry : map.entries) {
        if (const std::string meant = meant_resource(entry.key);
            !meant.empty() && reading.from == JsonFrom::submitter) {
            reading.problem(below(path, entry.key), entry.value, "no node offers " + shown(entry.key),
                            "did you mean " + meant + "?");
            continue;
        }
        const auto amount = amount_from(entry.key, entry.value);
        if (!amount)
            reading.problem(below(path, entry.key), entry.value, amount.error().message, amount.error().next);
        else if (entry.key == memory_key && too_little_memory(*amount) && reading.from == JsonFrom::submitter)
            reading.problem(below(path, entry.key), entry.value,
                            shown_value(entry.value) + " is " + to_text(*amount) + " bytes, less than any worker needs",
                            "write the unit, for example " + to_text(*amount) + "Gi");
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
    // Without this entry, a worker without CPU and GPU would be read as one with one CPU, and `use_gpu` without GPU as
    // one GPU.
    if (!out.contains("CPU")) out["CPU"] = "0";
    return out;
}

void take_workers(Reading& reading, const Value& value) {
    constexpr std::int64_t of_records = 1'000'000;  // the greatest number that earlier versions accepted
    const std::int64_t most = reading.from == JsonFrom::record ? of_records : workers_most;
    const std::size_t dots = value.text.find("..");
    const auto number = [&](const std::string& text) {
        return text.size() > 9 ? of_records + 1 : whole_number(Value{.kind = Kind::number, .text = text});
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

LabelSelector taken_selector(Reading& reading, const std::string& path, const Value& map) {
    LabelSelector out;
    for (const Entry& entry : map.entries) {
        auto condition = parse_label_condition(entry.key, scalar(entry.value));
        if (condition && condition->values.size() > selector_values_most && reading.from == JsonFrom::submitter)
            reading.problem(below(path, entry.key), entry.value,
                            "has " + std::to_string(condition->values.size()) + " values; the most is " +
                                std::to_string(selector_values_most),
                            "");
        else if (condition)
            out.push_back(std::move(*condition));
        else
            reading.problem(below(path, entry.key), entry.value, condition.error().message, condition.error().next);
    }
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    return out;
}

void take_worker_selectors(Reading& reading, const Value& list) {
    reading.job.worker_selectors.clear();
    for (std::size_t i = 0; i < list.items.size(); ++i)
        reading.job.worker_selectors.push_back(
            taken_selector(reading, below("scaling.worker_selectors", i), list.items[i]));
}

json given_selector(const LabelSelector& selector) {
    json out = json::object();
    for (const LabelCondition& condition : selector) {
        std::string list;
        for (const std::string& value : condition.values) list += (list.empty() ? "" : ",") + value;
        out[condition.key] =
            std::string(condition.negated ? "!" : "") + (condition.values.size() == 1 ? list : "in(" + list + ")");
    }
    return out;
}

constexpr Rule scaling_rows[] = {
    {"scaling.workers",
     R"({"anyOf":[{"type":"integer","minimum":0},{"type":"string","pattern":"^[0-9]+[.][.][0-9]+$"}]})",
     "a whole number, or a range such as 2..8", take_workers, give_workers},
    {"scaling.grow_after", DURATION, a_duration,
     [](R& r, const V& v) { r.job.grow_after_ms = taken_duration(r, "scaling.grow_after", v, v.text); },
     [](const Job& j) { return json(duration_text(j.grow_after_ms)); }},
    {"scaling.use_gpu", FLAG, a_flag, [](R& r, const V& v) { r.job.use_gpu = is_true(v); },
     [](const Job& j) { return json(j.use_gpu); }},
    {"scaling.resources_per_worker", AMOUNTS, "a map of resources and amounts such as {CPU: 1, memory: 4Gi}",
     [](R& r, const V& v) { r.job.resources_per_worker = taken_amounts(r, "scaling.resources_per_worker", v); },
     given_resources},
    {"scaling.placement", R"({"enum":["PACK","SPREAD","STRICT_PACK","STRICT_SPREAD"]})",
     "PACK, SPREAD, STRICT_PACK or STRICT_SPREAD",
     [](R& r, const V& v) { r.job.placement = strategy(v.text).value_or(Strategy::pack); },
     [](const Job& j) { return json(to_text(j.placement)); }},
    {"scaling.accelerator_type", R"({"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._-]*$"})", "a type such as A100",
     [](R& r, const V& v) { r.job.accelerator_type = v.text; },
     [](const Job& j) { return j.accelerator_type ? json(*j.accelerator_type) : json(); }},
    {"scaling.label_selector",
     R"({"type":"object","propertyNames":{"minLength":1},"additionalProperties":)" TEXT_OR_NUMBER "}",
     "a map of labels and conditions: v, !v, in(a,b) or !in(a,b)",
     [](R& r, const V& v) { r.job.label_selector = taken_selector(r, "scaling.label_selector", v); },
     [](const Job& j) { return given_selector(j.label_selector); }},
    {"scaling.worker_selectors",
     R"({"type":"array","items":{"type":"object","propertyNames":{"minLength":1},"additionalProperties":)" TEXT_OR_NUMBER
     "}}",
     "a list of maps as of label_selector, one for each worker", take_worker_selectors,
     [](const Job& j) {
         json out = json::array();
         for (const LabelSelector& selector : j.worker_selectors) out.push_back(given_selector(selector));
         return out;
     }},
    {"scaling.nodes", NAMES, "a list of nodes", [](R& r, const V& v) { r.job.nodes = texts(v); },
     [](const Job& j) { return json(j.nodes); }},
    {"scaling.exclude_nodes", NAMES, "a list of nodes", [](R& r, const V& v) { r.job.exclude_nodes = texts(v); },
     [](const Job& j) { return json(j.exclude_nodes); }},
    {"scaling.topology", SOME_TEXT, "the name of a node label such as rack",
     [](R& r, const V& v) { r.job.topology = v.text; },
     [](const Job& j) { return j.topology ? json(*j.topology) : json(); }},
    {"scaling.cpu_affinity", R"({"enum":["near_gpus","even","none"]})", "near_gpus, even or none",
     [](R& r, const V& v) { r.job.cpu_affinity = v.text; }, [](const Job& j) { return json(j.cpu_affinity); }},
    {"scaling.wait_for_nodes", FLAG, a_flag, [](R& r, const V& v) { r.job.wait_for_nodes = is_true(v); },
     [](const Job& j) { return json(j.wait_for_nodes); }},
    {"scaling.trainer_resources", AMOUNTS, "a map of resources and amounts such as {CPU: 1}",
     [](R& r, const V& v) { r.job.trainer_resources = taken_amounts(r, "scaling.trainer_resources", v); },
     [](const Job& j) { return amounts_json(j.trainer_resources); }},
};

}  // namespace

std::span<const Rule> scaling_rules() { return scaling_rows; }

}  // namespace rtrain::spec
