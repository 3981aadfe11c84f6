// Amounts of named resources, exact: 64-bit counts of 1/10,000 ("ticks"), never floating point.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/result.hpp"

namespace rtrain {

struct Amount {
    static constexpr std::int64_t per_unit = 10'000;
    std::int64_t ticks = 0;
    auto operator<=>(const Amount&) const = default;
};
constexpr Amount units(std::int64_t n) { return {n * Amount::per_unit}; }
constexpr Amount operator+(Amount a, Amount b) { return {a.ticks + b.ticks}; }
constexpr Amount operator-(Amount a, Amount b) { return {a.ticks - b.ticks}; }

// Decimal text to ticks: "0.0003" is 3. Finer than 0.0001, negative, not a number, or beyond 64 bits: an error that
// says which. Suffixes Ki Mi Gi Ti are understood for `memory` by the spec reader, not here.
Result<Amount> parse_amount(std::string_view text);
std::string to_text(Amount amount);  // shortest decimal: "0.5", "2"

// Sorted by name; a name that is absent counts as zero, and zero amounts are not stored.
// "GPU" in a *demand* is a sum wished for; what a node *has* in GPUs is a list of devices (Node::gpus_free).
using Resources = std::map<std::string, Amount, std::less<>>;

inline constexpr std::string_view gpu_key = "GPU";
inline constexpr std::string_view cpu_key = "CPU";
inline constexpr std::string_view memory_key = "memory";  // bytes

Amount amount_of(const Resources& resources, std::string_view name);
void add(Resources& into, const Resources& what);
void subtract(Resources& from, const Resources& what);  // RTRAIN_CHECK: never below zero

using Labels = std::map<std::string, std::string, std::less<>>;

// One condition on a node's label: `v`, `!v`, `in(a,b)`, `!in(a,b)`. A missing key satisfies the negated forms.
struct LabelCondition {
    std::string key;
    std::vector<std::string> values;
    bool negated = false;
    bool operator==(const LabelCondition&) const = default;
};
using LabelSelector = std::vector<LabelCondition>;
Result<LabelCondition> parse_label_condition(std::string_view key, std::string_view expression);
bool matches(const LabelSelector& selector, const Labels& labels);
std::string to_text(const LabelCondition& condition);

}  // namespace rtrain
