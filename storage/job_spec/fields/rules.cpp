// The complete table of fields, and the functions that its rows share. A new field needs only a row in rows_*.cpp.

#include "storage/job_spec/fields/row_words.hpp"

namespace rtrain::spec {

using nlohmann::json;

std::vector<std::string> texts(const Value& list) {
    std::vector<std::string> out;
    for (const Value& item : list.items) out.push_back(item.text);
    return out;
}
std::map<std::string, std::string> text_map(const Value& map) {
    std::map<std::string, std::string> out;
    for (const Entry& entry : map.entries) out[entry.key] = scalar(entry.value);
    return out;
}
json or_null(const std::string& text) { return text.empty() ? json() : json(text); }
json duration_or_null(const std::optional<std::int64_t>& ms) { return ms ? json(duration_text(*ms)) : json(); }

std::int64_t taken_duration(Reading& reading, const std::string& path, const Value& value, std::string_view text) {
    const auto ms = duration_ms(text);
    if (!ms) reading.problem(path, value, shown(text) + " is beyond 64 bits of milliseconds", "");
    return ms.value_or(0);
}

const std::vector<Rule>& rules() {
    static const std::vector<Rule> all = [] {
        std::vector<Rule> list;
        for (const auto rows : {job_rules(), scaling_rules(), policy_rules()})
            list.insert(list.end(), rows.begin(), rows.end());
        return list;
    }();
    return all;
}

const Rule* rule_of(std::string_view path) {
    static const auto by_path = [] {
        std::map<std::string_view, const Rule*> out;
        for (const Rule& rule : rules()) out[rule.path] = &rule;
        return out;
    }();
    const auto entry = by_path.find(path);
    return entry == by_path.end() ? nullptr : entry->second;
}

}  // namespace rtrain::spec
