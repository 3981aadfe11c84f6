// Shared by the rows of the table: JSON Schemas of values, and readers and writers for them. Used inside of
// storage/job_spec only.
#pragma once

#include <span>

#include "storage/job_spec/fields/rules.hpp"

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

inline constexpr const char* a_duration = "a duration such as 90s, 5m or 1h30m";
inline constexpr const char* a_flag = "true or false";

inline bool is_true(const Value& value) { return value.text == "true"; }
inline const std::string& scalar(const Value& value) { return value.kind == Kind::number ? value.raw : value.text; }
std::vector<std::string> texts(const Value& list);
std::map<std::string, std::string> text_map(const Value& map);
nlohmann::json or_null(const std::string& text);
nlohmann::json duration_or_null(const std::optional<std::int64_t>& ms);
// returns the number of bytes for a text such as "10Gi" or "10GiB", which must match the pattern of its row
std::int64_t byte_count(std::string_view text);
nlohmann::json byte_count_json(std::int64_t bytes);
std::int64_t taken_duration(Reading& reading, const std::string& path, const Value& value, std::string_view text);

std::span<const Rule> job_rules();
std::span<const Rule> scaling_rules();
std::span<const Rule> policy_rules();

}  // namespace rtrain::spec
