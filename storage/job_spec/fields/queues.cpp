// Reads the file strictly, like the job file. Reports all faults at once, each with its position: unknown fields,
// invalid amounts, missing parents, cycles of borrowing, and children with more quota than their parent.
#include "storage/job_spec/fields/queues.hpp"

#include <algorithm>

#include "storage/job_spec/fields/rules.hpp"
#include "storage/job_spec/file_reader.hpp"

namespace rtrain::spec {
namespace {

// the greatest share of a queue; runs have the same bound, so that seven digits are enough for both
constexpr std::int64_t share_most = 1'000'000;
constexpr std::int64_t day_ms = 86'400'000;
constexpr std::int64_t gpu_hours_most = 100'000'000;
constexpr std::size_t named_budgets_most = 1'000;

class QueuesReader : private FileReader {
  public:
    explicit QueuesReader(Problems problems) : FileReader(std::move(problems)) {}
    void read(const Value& root);
    QueuesAnswer answer() &&;

  private:
    void read_queue(const Entry& entry);
    void read_count(const std::string& path, const Value& value, std::int64_t& count);
    void read_user_gpus(const std::string& path, const Value& value, QueueRules& rules);
    void read_hours(const std::string& path, const Value& value, Amount& hours);
    void read_hours_of(const std::string& path, const Value& value, QueueRules& rules);
    void read_budget_window(const std::string& path, const Value& value, QueueRules& rules);
    void read_quota(const std::string& path, const Value& value, QueueRules& rules);
    void read_flag(const std::string& path, const Value& value, bool& flag);
    void read_duration(const std::string& path, const Value& value, std::int64_t least_ms, Duration& duration);
    void check_parents();
    void check_sums();

    Queues queues_;
    std::map<std::string, Place> places_;   // position of each queue in the file
    std::map<std::string, Value> parents_;  // name of each queue's parent, as written in the file
    std::map<std::string, Place> quotas_;
};

std::string described(const Value& value) {
    switch (value.kind) {
        case Kind::null:
            return "nothing";
        case Kind::boolean:
        case Kind::number:
            return value.raw.empty() ? value.text : value.raw;
        case Kind::string:
            return shown(value.text);
        case Kind::list:
            return "a list";
        case Kind::map:
            return "a map";
    }
    return "";
}

bool is_name(const std::string& text) {
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    return !text.empty() && text.size() <= 128 && plain(text.front()) &&
           std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
}

void QueuesReader::read_count(const std::string& path, const Value& value, std::int64_t& count) {
    const bool whole = value.kind == Kind::number && value.raw.find_first_not_of("0123456789") == std::string::npos &&
                       value.raw.size() <= 7;
    const std::int64_t share = whole ? std::stoll(value.raw) : 0;
    if (share < 1 || share > share_most)
        return problem(path, value.place, "wants a whole number from 1 to 1000000, found " + described(value));
    count = share;
}

void QueuesReader::read_user_gpus(const std::string& path, const Value& value, QueueRules& rules) {
    if (value.kind != Kind::number && value.kind != Kind::string)
        return problem(path, value.place, "wants a number of GPUs, found " + described(value));
    const auto amount = amount_from(gpu_key, value);
    if (!amount) return problem(path, value.place, amount.error().message, amount.error().next);
    if (*amount > units(1) && amount->ticks % Amount::per_unit != 0)
        return problem(path, value.place, "GPU above 1 is counted in whole devices");
    rules.user_gpus = *amount;
}

void QueuesReader::read_hours(const std::string& path, const Value& value, Amount& hours) {
    if (value.kind != Kind::number && value.kind != Kind::string)
        return problem(path, value.place, "wants a number of GPU hours, found " + described(value));
    const auto amount = amount_from("GPU hours", value);
    if (!amount) return problem(path, value.place, amount.error().message, amount.error().next);
    if (*amount > units(gpu_hours_most))
        return problem(path, value.place, "wants at most 100000000 GPU hours, found " + described(value));
    hours = *amount;
}

void QueuesReader::read_hours_of(const std::string& path, const Value& value, QueueRules& rules) {
    if (value.kind != Kind::map)
        return problem(path, value.place, "wants a map of users, found " + described(value), "for example {ana: 200}");
    if (value.entries.size() > named_budgets_most) return problem(path, value.place, "names more than 1000 users");
    for (const Entry& entry : value.entries)
        read_hours(below(path, entry.key), entry.value, rules.user_gpu_hours_of[entry.key]);
}

void QueuesReader::read_budget_window(const std::string& path, const Value& value, QueueRules& rules) {
    read_duration(path, value, 3'600'000, rules.budget_window);
    if (rules.budget_window.ms > 366 * day_ms)
        problem(path, value.place, "wants 1h to 366d, found " + described(value));
}

void QueuesReader::read_flag(const std::string& path, const Value& value, bool& flag) {
    if (value.kind != Kind::boolean)
        return problem(path, value.place, "wants true or false, found " + described(value));
    flag = value.text == "true";
}

void QueuesReader::read_duration(const std::string& path, const Value& value, std::int64_t least_ms,
                                 Duration& duration) {
    const auto ms = value.kind == Kind::string && !value.text.empty() ? duration_ms(value.text) : std::nullopt;
    if (!ms) return problem(path, value.place, "wants a duration such as 90s, 5m or 1d, found " + described(value));
    if (*ms < least_ms || *ms > 3650 * day_ms)
        return problem(path, value.place, "wants " + duration_text(least_ms) + " to 3650d, found " + described(value));
    duration = {*ms};
}

void QueuesReader::read_quota(const std::string& path, const Value& value, QueueRules& rules) {
    if (value.kind != Kind::map)
        return problem(path, value.place, "wants a map of resources, found " + described(value),
                       "for example {GPU: 8}");
    for (const Entry& entry : value.entries) {
        if (entry.value.kind != Kind::number && entry.value.kind != Kind::string) {
            problem(below(path, entry.key), entry.value.place, "wants an amount, found " + described(entry.value));
            continue;
        }
        const auto amount = amount_from(entry.key, entry.value);
        if (!amount)
            problem(below(path, entry.key), entry.value.place, amount.error().message, amount.error().next);
        else if (entry.key == gpu_key && *amount > units(1) && amount->ticks % Amount::per_unit != 0)
            problem(below(path, entry.key), entry.value.place, "GPU above 1 is counted in whole devices");
        else
            rules.quota.insert_or_assign(entry.key, *amount);
    }
}

void QueuesReader::read_queue(const Entry& entry) {
    const std::string path = below("queues", entry.key);
    if (!is_name(entry.key))
        return problem(path, entry.place, shown(entry.key) + " is no name: letters, digits, '.', '_' and '-'");
    QueueRules& rules = queues_.rules[entry.key];
    places_[entry.key] = entry.place;
    if (entry.value.kind == Kind::null) return;
    if (entry.value.kind != Kind::map)
        return problem(path, entry.value.place,
                       "wants a map of share, quota, parent, borrow, preempt, limits and budgets",
                       "configs/queues.yaml shows every field");
    fields(
        entry.value, path,
        {{"share", [&](const std::string& at, const Value& v) { read_count(at, v, rules.share); }},
         {"quota",
          [&](const std::string& at, const Value& v) {
              quotas_[entry.key] = v.place;
              read_quota(at, v, rules);
          }},
         {"parent",
          [&](const std::string& at, const Value& v) {
              if (v.kind != Kind::string)
                  return problem(at, v.place, "wants the name of a queue, found " + described(v));
              rules.parent = v.text;
              parents_[entry.key] = v;
          }},
         {"borrow", [&](const std::string& at, const Value& v) { read_flag(at, v, rules.borrow); }},
         {"preempt", [&](const std::string& at, const Value& v) { read_flag(at, v, rules.preempt); }},
         {"user_runs", [&](const std::string& at, const Value& v) { read_count(at, v, rules.user_runs.emplace()); }},
         {"user_gpus", [&](const std::string& at, const Value& v) { read_user_gpus(at, v, rules); }},
         {"gpu_hours", [&](const std::string& at, const Value& v) { read_hours(at, v, rules.gpu_hours.emplace()); }},
         {"user_gpu_hours",
          [&](const std::string& at, const Value& v) { read_hours(at, v, rules.user_gpu_hours.emplace()); }},
         {"user_gpu_hours_of", [&](const std::string& at, const Value& v) { read_hours_of(at, v, rules); }},
         {"budget_window", [&](const std::string& at, const Value& v) { read_budget_window(at, v, rules); }},
         {"budget_preempts", [&](const std::string& at, const Value& v) { read_flag(at, v, rules.budget_preempts); }}},
        Null::left_out);
}

void QueuesReader::check_parents() {
    std::vector<std::string> names;
    for (const auto& [name, place] : places_) names.push_back(name);
    for (const auto& [name, value] : parents_)
        if (!places_.contains(value.text)) {
            problem(below(below("queues", name), "parent"), value.place,
                    "there is no queue " + shown(value.text) + " in this file",
                    did_you_mean(nearest(value.text, names)));
            queues_.rules[name].parent.clear();
        }
    std::set<std::string> reported;
    for (const auto& [name, value] : parents_) {
        std::vector<std::string> way{name};
        for (std::string at = queues_.rules[name].parent; !at.empty() && at != name && way.size() <= places_.size();
             at = queues_.rules[at].parent)
            way.push_back(at);
        const bool cycle = queues_.rules[way.back()].parent == name;
        if (!cycle || reported.contains(name)) continue;
        std::string text;
        for (const std::string& queue : way) text += queue + " -> ";
        problem(below(below("queues", name), "parent"), value.place, "borrowing goes in a circle: " + text + name,
                "one of them must have no parent");
        reported.insert(way.begin(), way.end());
    }
}

// The quotas of the queues below another queue must not exceed its own quota.
void QueuesReader::check_sums() {
    for (const auto& [parent, rules] : queues_.rules)
        for (const auto& [resource, quota] : rules.quota) {
            Amount sum;
            bool beyond = false;
            for (const auto& [name, child] : queues_.rules)
                if (child.parent == parent)
                    beyond =
                        beyond || __builtin_add_overflow(sum.ticks, amount_of(child.quota, resource).ticks, &sum.ticks);
            if (beyond || sum > quota)
                problem(below(below(below("queues", parent), "quota"), resource), quotas_[parent],
                        "the queues below it have " + (beyond ? std::string("more than 64 bits") : to_text(sum)) + " " +
                            resource + " in quotas, it has " + to_text(quota),
                        "raise this quota or lower theirs");
        }
}

void QueuesReader::read(const Value& root) {
    if (root.kind != Kind::map)
        return problem("", {1, 1}, "wants a map with `queues:`", "configs/queues.yaml shows one");
    fields(
        root, "",
        {{"version",
          [&](const std::string& at, const Value& v) {
              if (v.kind != Kind::number || v.raw != "1") problem(at, v.place, "wants 1, found " + described(v));
          }},
         {"half_life", [&](const std::string& at, const Value& v) { read_duration(at, v, 60'000, queues_.half_life); }},
         {"preemption_grace",
          [&](const std::string& at, const Value& v) { read_duration(at, v, 0, queues_.preemption_grace); }},
         {"queues",
          [&](const std::string& at, const Value& v) {
              if (v.kind != Kind::map) return problem(at, v.place, "wants a map of queues, found " + described(v));
              for (const Entry& entry : v.entries) read_queue(entry);
          }}},
        Null::left_out);
    if (root.find("queues") == nullptr) problem("queues", {1, 1}, "is missing", "configs/queues.yaml shows one");
    check_parents();
    if (problems_.empty()) check_sums();
}

QueuesAnswer QueuesReader::answer() && {
    if (!problems_.empty()) return {.queues = std::nullopt, .problems = std::move(*this).sorted()};
    queues_.rules.try_emplace(default_queue);
    return {.queues = std::move(queues_), .problems = {}};
}

}  // namespace

QueuesAnswer read_queues(const std::string& yaml_text) { return read_file<QueuesReader>(yaml_text); }

}  // namespace rtrain::spec
