// Reads the file strictly, like the job file: unknown fields, commands without a path and invalid amounts are all
// reported at once.
#include "storage/job_spec/fields/autoscale.hpp"

#include <utility>

#include "storage/job_spec/fields/rules.hpp"
#include "storage/job_spec/file_reader.hpp"

namespace rtrain::spec {
namespace {

constexpr std::int64_t nodes_most = 10'000, gpus_most = 1'024;
constexpr std::int64_t shortest_ms = 1'000, longest_ms = 86'400'000;  // bounds of durations

class AutoscaleReader : private FileReader {
  public:
    explicit AutoscaleReader(Problems problems) : FileReader(std::move(problems)) {}
    void read(const Value& root);
    AutoscaleAnswer answer() &&;

  private:
    void read_rules(const std::string& path, const Value& value);
    void read_command(const std::string& path, const Value& value, std::vector<std::string>& words);
    void read_duration(const std::string& path, const Value& value, std::int64_t least_ms, Duration& duration);
    void read_max(const std::string& path, const Value& value);
    void read_node(const std::string& path, const Value& value);
    void read_labels(const std::string& path, const Value& value);

    AutoscaleRules rules_;
};

void AutoscaleReader::read_command(const std::string& path, const Value& value, std::vector<std::string>& words) {
    std::vector<std::string> read;
    if (value.kind == Kind::string) read.push_back(value.text);
    for (const Value& item : value.items) {
        if (item.kind != Kind::string)
            return problem(path, item.place, "wants texts: quote numbers and words such as yes");
        read.push_back(item.text);
    }
    if (read.empty() || !read.front().starts_with('/'))
        return problem(path, value.place, "wants a program by its whole path, or a list of it and its arguments",
                       "for example [/etc/rtrain/provision, --zone, a]");
    words = std::move(read);
}

void AutoscaleReader::read_duration(const std::string& path, const Value& value, std::int64_t least_ms,
                                    Duration& duration) {
    const auto ms = value.kind == Kind::string && !value.text.empty() ? duration_ms(value.text) : std::nullopt;
    if (!ms) return problem(path, value.place, "wants a duration such as 90s, 5m or 1d");
    if (*ms < least_ms || *ms > longest_ms)
        return problem(path, value.place, "wants " + duration_text(least_ms) + " to 1d");
    duration = {*ms};
}

void AutoscaleReader::read_max(const std::string& path, const Value& value) {
    const bool whole = value.kind == Kind::number && value.raw.size() <= 5 &&
                       value.raw.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t number = whole ? std::stoll(value.raw) : 0;
    if (number < 1 || number > nodes_most) return problem(path, value.place, "wants a whole number from 1 to 10000");
    rules_.policy.max = static_cast<std::uint32_t>(number);
}

void AutoscaleReader::read_node(const std::string& path, const Value& value) {
    if (value.kind != Kind::map || value.entries.empty())
        return problem(path, value.place, "wants what one machine offers",
                       "for example {CPU: 64, memory: 900Gi, GPU: 8}");
    for (const Entry& entry : value.entries) {
        const bool number = entry.value.kind == Kind::number || entry.value.kind == Kind::string;
        const auto amount =
            number ? amount_from(entry.key, entry.value) : Result<Amount>(Error{.message = "wants an amount"});
        if (!amount) {
            problem(below(path, entry.key), entry.value.place, amount.error().message, amount.error().next);
        } else if (entry.key != gpu_key) {
            rules_.policy.node.total.insert_or_assign(entry.key, *amount);
        } else if (amount->ticks % Amount::per_unit != 0 || *amount > units(gpus_most)) {
            problem(below(path, entry.key), entry.value.place, "a machine has whole GPUs, 1024 at most");
        } else {
            rules_.policy.node.gpus = static_cast<std::uint32_t>(amount->ticks / Amount::per_unit);
        }
    }
}

void AutoscaleReader::read_labels(const std::string& path, const Value& value) {
    if (value.kind != Kind::map) return problem(path, value.place, "wants a map of labels", "for example {zone: a}");
    for (const Entry& entry : value.entries)
        if (entry.value.kind != Kind::string)
            problem(below(path, entry.key), entry.value.place, "wants a text: quote numbers and words such as yes");
        else
            rules_.policy.node.labels[entry.key] = entry.value.text;
}

void AutoscaleReader::read_rules(const std::string& path, const Value& value) {
    if (value.kind != Kind::map) return problem(path, value.place, "wants a map", "configs/autoscale shows some");
    AutoscalePolicy& policy = rules_.policy;
    fields(value, path,
           {{"provision", [&](const std::string& at, const Value& v) { read_command(at, v, rules_.provision); }},
            {"release", [&](const std::string& at, const Value& v) { read_command(at, v, rules_.release); }},
            {"node", [&](const std::string& at, const Value& v) { read_node(at, v); }},
            {"labels", [&](const std::string& at, const Value& v) { read_labels(at, v); }},
            {"max", [&](const std::string& at, const Value& v) { read_max(at, v); }},
            {"idle", [&](const std::string& at, const Value& v) { read_duration(at, v, shortest_ms, policy.idle); }},
            {"cooldown", [&](const std::string& at, const Value& v) { read_duration(at, v, 0, policy.cooldown); }},
            {"timeout",
             [&](const std::string& at, const Value& v) { read_duration(at, v, shortest_ms, policy.timeout); }}},
           Null::left_out);
    for (const char* needed : {"provision", "release", "node", "max"})
        if (value.find(needed) == nullptr)
            problem(below(path, needed), value.place, "is missing", "configs/autoscale shows some");
}

void AutoscaleReader::read(const Value& root) {
    if (root.kind != Kind::map)
        return problem("", {1, 1}, "wants a map with `autoscale:`", "configs/autoscale shows some");
    fields(root, "",
           {{"version",
             [&](const std::string& at, const Value& v) {
                 if (v.kind != Kind::number || v.raw != "1") problem(at, v.place, "wants 1");
             }},
            {"autoscale", [&](const std::string& at, const Value& v) { read_rules(at, v); }}},
           Null::left_out);
    if (root.find("autoscale") == nullptr) problem("autoscale", {1, 1}, "is missing", "configs/autoscale shows some");
}

AutoscaleAnswer AutoscaleReader::answer() && {
    if (!problems_.empty()) return {.rules = std::nullopt, .problems = std::move(*this).sorted()};
    return {.rules = std::move(rules_), .problems = {}};
}

}  // namespace

AutoscaleAnswer read_autoscale(const std::string& yaml_text) { return read_file<AutoscaleReader>(yaml_text); }

}  // namespace rtrain::spec
