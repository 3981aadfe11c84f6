// The fields of a job, one row each. The reader, the canonical JSON and the JSON Schema are all made from this table,
// so they agree. Used inside of storage/job_spec only.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "storage/job_spec/value.hpp"

namespace rtrain::spec {

// The state of reading a job: its target and its problems.
struct Reading {
    Job job;
    Problems problems;
    std::size_t problems_more = 0;  // number of problems beyond the listed ones
    JsonFrom from = JsonFrom::submitter;
    std::set<std::string, std::less<>> unusable;  // fields with a problem; checks that involve several fields skip them

    // Returns true if a further problem would be listed. Otherwise it would only be counted, so the caller need not
    // make its message.
    bool lists_more() const { return problems.size() < problems_most; }
    void problem(const std::string& path, const Value& value, const std::string& message,
                 const std::string& suggestion);
};

struct Rule {
    std::string_view path;  // path of the field: "scaling.workers"
    const char* schema;     // JSON Schema of the value; null is the default of all fields but the entrypoint
    const char* wants;      // the values that the field takes, for messages: "a whole number or a range such as 2..8"
    void (*take)(Reading&, const Value&);  // writes the value into the job; requires that the value matches the schema
    nlohmann::json (*give)(const Job&);    // the inverse of `take`
};
const std::vector<Rule>& rules();
const Rule* rule_of(std::string_view path);

// Returns true if the value matches the row's schema. Problems name the innermost part that does not.
bool check_shape(Reading& reading, const Rule& rule, const Value& value);
// returns the valid entries of a map that has invalid ones
std::optional<Value> fitting_part(const Rule& rule, const Value& value);
// Checks the job as a whole: defaults that depend on each other, and contradictions.
void check_whole(Reading& reading, const Value& root);

// ---- values of rows -------------------------------------------------------------------------------------------------
std::optional<std::int64_t> duration_ms(std::string_view text);  // parses "1h30m"; nullopt if the value exceeds 64 bits
std::string duration_text(std::int64_t ms);
Result<Amount> amount_from(std::string_view resource, const Value& value);
std::int64_t whole_number(const Value& value);
double real_number(const Value& value);  // value of a number; infinite, or nearly 0, beyond the range of double

}  // namespace rtrain::spec
