// Checks whether a value matches the JSON Schema of its row. The keywords that the table uses are interpreted as in any
// validator; the messages are for people.

#include <algorithm>
#include <cmath>

#include "base/json_text.hpp"
#include "storage/job_spec/fields/rules.hpp"
#include "storage/job_spec/pattern.hpp"

namespace rtrain::spec {
namespace {

using nlohmann::json;

std::string article(const Value& value) {
    switch (value.kind) {
        case Kind::null:
            return "nothing (null)";
        case Kind::boolean:
        case Kind::number:
            return value.text;
        case Kind::string:
            return shown(value.text);
        case Kind::list:
            return "a list";
        case Kind::map:
            return "a map";
    }
    return "";
}

bool is_whole(const Value& value) {
    if (value.text.find_first_of(".eE") == std::string::npos) return true;
    const double number = real_number(value);
    return std::floor(number) == number && std::abs(number) < 9e15;
}

bool has_type(const std::string& type, const Value& value) {
    switch (value.kind) {
        case Kind::null:
            return type == "null";
        case Kind::boolean:
            return type == "boolean";
        case Kind::number:
            return type == "number" || (type == "integer" && is_whole(value));
        case Kind::string:
            return type == "string";
        case Kind::list:
            return type == "array";
        case Kind::map:
            return type == "object";
    }
    return false;
}

bool matches(const std::string& text, const std::string& pattern) {
    if (text.size() > pattern_text_most) return pattern.find('$') == std::string::npos;
    return has_pattern(text, pattern);
}

bool number_fits(const json& schema, const Value& value) {
    const double number = real_number(value);
    return std::isfinite(number) && number >= schema.value("minimum", -INFINITY) &&
           number <= schema.value("maximum", INFINITY);
}

bool text_fits(const json& schema, const Value& value) {
    if (!is_text(value.text) || value.text.size() < schema.value("minLength", std::size_t{0})) return false;
    const auto pattern = schema.find("pattern");
    return pattern == schema.end() || matches(value.text, pattern->get<std::string>());
}

// Checks one value, but not the values inside of it.
bool fits_itself(const json& schema, const Value& value) {
    if (const auto type = schema.find("type"); type != schema.end()) {
        bool any = false;
        for (const json& name : type->is_array() ? *type : json::array({*type}))
            any = any || has_type(name.get<std::string>(), value);
        if (!any) return false;
    }
    if (const auto constant = schema.find("const"); constant != schema.end())
        return value.kind == Kind::number && real_number(value) == constant->get<double>();
    if (const auto words = schema.find("enum"); words != schema.end())
        if (value.kind != Kind::string || std::find(words->begin(), words->end(), value.text) == words->end())
            return false;
    if (value.kind == Kind::number && !number_fits(schema, value)) return false;
    if (value.kind == Kind::string && !text_fits(schema, value)) return false;
    return value.kind != Kind::list || value.items.size() >= schema.value("minItems", std::size_t{0});
}

bool fits(const json& schema, const Value& value);

bool fits_inside(const json& schema, const Value& value) {
    if (value.kind == Kind::list && schema.contains("items"))
        return std::all_of(value.items.begin(), value.items.end(),
                           [&](const Value& item) { return fits(schema["items"], item); });
    if (value.kind != Kind::map) return true;
    return std::all_of(value.entries.begin(), value.entries.end(), [&](const Entry& entry) {
        return (!schema.contains("propertyNames") ||
                fits(schema["propertyNames"], Value{.kind = Kind::string, .text = entry.key})) &&
               (!schema.contains("additionalProperties") || fits(schema["additionalProperties"], entry.value));
    });
}

bool fits(const json& schema, const Value& value) {
    if (const auto choices = schema.find("anyOf"); choices != schema.end())
        return std::any_of(choices->begin(), choices->end(), [&](const json& choice) { return fits(choice, value); });
    return fits_itself(schema, value) && fits_inside(schema, value);
}

std::vector<std::string> words_of(const json& schema) {
    const auto words = schema.find("enum");
    return words == schema.end() ? std::vector<std::string>{} : words->get<std::vector<std::string>>();
}

std::string advice(const json& schema, const Value& value) {
    const bool scalar = value.kind == Kind::boolean || value.kind == Kind::number;
    if (scalar && fits(schema, Value{.kind = Kind::string, .text = value.raw.empty() ? value.text : value.raw}))
        return "quote it: \"" + (value.raw.empty() ? value.text : value.raw) + "\"";
    if (value.kind == Kind::number && schema.value("pattern", "").find("ms|s|m|h|d") != std::string::npos)
        return "give a unit: " + value.text + "s";
    return value.kind == Kind::string ? did_you_mean(nearest(value.text, words_of(schema))) : "";
}

const char* inner_wish(const json& schema) {
    if (schema.value("pattern", "").starts_with("^[A-Za-z_]"))
        return "letters, digits and '_', not beginning with a digit";
    if (schema.contains("anyOf")) return "an amount such as 1, 0.5 or (memory) 8Gi";
    const json type = schema.value("type", json("text"));
    if (type == json("boolean")) return "true or false";
    if (type == json("number")) return "a number";
    return "text";
}

// Reports the entries of a list or map that do not match. Returns true if there are any.
bool name_inner(Reading& reading, const json& schema, const Value& value, const std::string& path) {
    const std::size_t before = reading.problems.size() + reading.problems_more;
    if (value.kind == Kind::list && schema.contains("items"))
        for (std::size_t i = 0; i < value.items.size(); ++i)
            if (!fits(schema["items"], value.items[i]))
                reading.problem(
                    below(path, i), value.items[i],
                    std::string("wants ") + inner_wish(schema["items"]) + ", found " + article(value.items[i]),
                    advice(schema["items"], value.items[i]));
    if (value.kind != Kind::map) return reading.problems.size() + reading.problems_more != before;
    const json names = schema.value("propertyNames", json::object());
    const json inner = schema.value("additionalProperties", json::object());
    for (const Entry& entry : value.entries) {
        const Value key{.kind = Kind::string, .text = entry.key, .place = entry.place, .set = entry.value.set};
        if (!fits(names, key))
            reading.problem(below(path, entry.key), key, shown(entry.key) + " is not a name that can stand here",
                            advice(names, key));
        else if (!fits(inner, entry.value))
            reading.problem(below(path, entry.key), entry.value,
                            std::string("wants ") + inner_wish(inner) + ", found " + article(entry.value),
                            advice(inner, entry.value));
    }
    return reading.problems.size() + reading.problems_more != before;
}

}  // namespace

void Reading::problem(const std::string& path, const Value& value, const std::string& message,
                      const std::string& suggestion) {
    const bool is_field = rule_of(path) != nullptr;
    if (is_field) unusable.insert(path);
    // the path of a field has at most one dot, so the first '.' or '[' behind it begins an inner part
    std::size_t end = path.find_first_of(".[");
    for (int part = 0; part < 2 && !is_field && end != std::string::npos; ++part) {
        if (rule_of(std::string_view(path).substr(0, end)) != nullptr) unusable.insert(path.substr(0, end));
        end = path.find_first_of(".[", end + 1);
    }
    if (!lists_more()) {
        ++problems_more;
        return;
    }
    const std::string set = value.set.empty() ? "" : "--set " + shown(value.set) + ": ";
    problems.push_back({path, value.place.line, value.place.column, set + message, suggestion});
}

namespace {

// Reports a list or map with more entries than its row takes, without checking the entries.
bool too_long(Reading& reading, const Rule& rule, const Value& value) {
    const std::size_t most = list_limit(rule.path), count = value.items.size() + value.entries.size();
    if (most == 0 || count <= most || reading.from == JsonFrom::record) return false;
    reading.problem(std::string(rule.path), value,
                    "has " + std::to_string(count) + " entries; the most is " + std::to_string(most), "");
    return true;
}

}  // namespace

// Returns the valid entries of a map that also has invalid ones, so that further problems of the valid entries are
// reported too.
std::optional<Value> fitting_part(const Rule& rule, const Value& value) {
    if (value.kind != Kind::map || value.entries.size() > list_limit(rule.path)) return std::nullopt;
    const json schema = parse_json(rule.schema);
    const json& choices = schema.contains("anyOf") ? schema["anyOf"] : json::array({schema});
    for (const json& choice : choices) {
        if (!fits_itself(choice, value)) continue;
        Value part = value;
        Value alone{.kind = value.kind, .place = value.place, .set = value.set};
        std::erase_if(part.entries, [&](const Entry& entry) {
            alone.entries = {entry};
            return !fits(choice, alone);
        });
        if (!part.entries.empty()) return part;
    }
    return std::nullopt;
}

bool check_shape(Reading& reading, const Rule& rule, const Value& value) {
    if (too_long(reading, rule, value)) return false;
    const json schema = parse_json(rule.schema);
    if (fits(schema, value)) return true;
    const std::string path(rule.path);
    const json& choices = schema.contains("anyOf") ? schema["anyOf"] : json::array({schema});
    // If no choice matches, the user probably meant the choice whose outermost type matches.
    for (const json& choice : choices)
        if (fits_itself(choice, value) && name_inner(reading, choice, value, path)) return false;
    std::string suggestion = advice(schema, value);
    for (const json& choice : choices)
        if (suggestion.empty()) suggestion = advice(choice, value);
    reading.problem(path, value, std::string("wants ") + rule.wants + ", found " + article(value), suggestion);
    return false;
}

}  // namespace rtrain::spec
