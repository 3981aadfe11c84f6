// Label conditions: `v`, `!v`, `in(a,b)`, `!in(a,b)`. A missing key satisfies the negated forms.
#include <algorithm>

#include "scheduler/model/resources.hpp"

namespace rtrain {
namespace {

Error bad_condition(std::string_view key, std::string_view expression, const std::string& why) {
    return {ErrorCode::invalid, "label " + std::string(key) + ": \"" + std::string(expression) + "\": " + why,
            "write v, !v, in(a,b) or !in(a,b)"};
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

bool plain(std::string_view value) { return !value.empty() && value.find_first_of("(),!") == std::string_view::npos; }

bool holds(const LabelCondition& condition, const Labels& labels) {
    const auto label = labels.find(condition.key);
    if (label == labels.end()) return condition.negated;
    const bool among =
        std::find(condition.values.begin(), condition.values.end(), label->second) != condition.values.end();
    return among != condition.negated;
}

}  // namespace

Result<LabelCondition> parse_label_condition(std::string_view key, std::string_view expression) {
    LabelCondition condition{.key = std::string(key), .values = {}, .negated = false};
    if (key.empty()) return bad_condition(key, expression, "the label's key is empty");
    std::string_view rest = trimmed(expression);
    if (rest.starts_with('!')) {
        condition.negated = true;
        rest = trimmed(rest.substr(1));
    }
    if (!rest.starts_with("in(")) {
        if (!plain(rest))
            return bad_condition(key, expression, rest.empty() ? "no value" : "a value has none of ( ) , !");
        condition.values.emplace_back(rest);
        return condition;
    }
    if (!rest.ends_with(')')) return bad_condition(key, expression, "the closing ) is missing");
    rest = rest.substr(3, rest.size() - 4);
    for (bool more = true; more;) {
        const std::size_t comma = rest.find(',');
        const std::string_view value = trimmed(rest.substr(0, comma));
        if (!plain(value)) return bad_condition(key, expression, "an empty or malformed value in the list");
        condition.values.emplace_back(value);
        more = comma != std::string_view::npos;
        if (more) rest = rest.substr(comma + 1);
    }
    return condition;
}

bool matches(const LabelSelector& selector, const Labels& labels) {
    return std::all_of(selector.begin(), selector.end(),
                       [&](const auto& condition) { return holds(condition, labels); });
}

std::string to_text(const LabelCondition& condition) {
    std::string list;
    for (const std::string& value : condition.values) list += (list.empty() ? "" : ",") + value;
    const std::string form = condition.values.size() == 1 ? list : "in(" + list + ")";
    return condition.key + " = " + (condition.negated ? "!" : "") + form;
}

}  // namespace rtrain
