// The fields of a job, one row each. Reader, canonical JSON and JSON Schema all come from this table, so they agree.
// Inside of storage/spec only.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "storage/spec/value.hpp"

namespace rtrain::spec {

// What is being read: where it goes, and what is wrong with it.
struct Reading {
    Job job;
    Problems problems;
    std::size_t problems_more = 0;  // beyond those that are listed
    JsonFrom from = JsonFrom::submitter;
    std::set<std::string, std::less<>> unusable;  // fields with a problem: checks across fields leave them alone

    // Returns whether a problem is still listed. False: it is counted only, so nothing has to be found out for its
    // message.
    bool lists_more() const { return problems.size() < problems_most; }
    void problem(const std::string& path, const Value& value, const std::string& message,
                 const std::string& suggestion);
};

struct Rule {
    std::string_view path;  // "scaling.workers"
    const char* schema;     // JSON Schema of the value; null is the default everywhere but for the entrypoint
    const char* wants;      // for people: "a whole number or a range such as 2..8"
    void (*take)(Reading&, const Value&);  // the value fits the schema
    nlohmann::json (*give)(const Job&);    // as `take` reads it
};
const std::vector<Rule>& rules();
const Rule* rule_of(std::string_view path);

// Returns whether the value fits the row's schema. Problems name the innermost part that does not.
bool check_shape(Reading& reading, const Rule& rule, const Value& value);
std::optional<Value> fitting_part(const Rule& rule, const Value& value);  // of a map whose shape is wrong
// What can only be said about the whole: defaults that hang together, and contradictions.
void check_whole(Reading& reading, const Value& root);

// ---- values of rows -------------------------------------------------------------------------------------------------
std::optional<std::int64_t> duration_ms(std::string_view text);  // "1h30m"; none: beyond 64 bits
std::string duration_text(std::int64_t ms);
Result<Amount> amount_from(std::string_view resource, const Value& value);
std::int64_t whole_number(const Value& value);
double real_number(const Value& value);  // of a number; infinite, or next to 0, beyond what a double holds

}  // namespace rtrain::spec
