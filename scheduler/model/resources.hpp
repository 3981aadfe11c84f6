// Amounts of named resources, exact: 64-bit counts of 1/10,000 ("ticks"), never floating point.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.hpp"

namespace rtrain {

struct Amount {
    static constexpr std::int64_t per_unit = 10'000;
    std::int64_t ticks = 0;
    auto operator<=>(const Amount&) const = default;
};
constexpr Amount units(std::int64_t n) { return {n * Amount::per_unit}; }
constexpr Amount operator+(Amount a, Amount b) { return {a.ticks + b.ticks}; }
constexpr Amount operator-(Amount a, Amount b) { return {a.ticks - b.ticks}; }
// Of one node, or of one bundle: so two of them add up in 64 bits.
inline constexpr Amount amount_at_most = units(400'000'000'000'000);

// What many nodes or runs have together: 64 bits of ticks are 839 TiB of memory, which a cluster may well have.
struct Sum {
    __int128 ticks = 0;
    constexpr Sum() = default;
    constexpr Sum(Amount amount) : ticks(amount.ticks) {}
    constexpr explicit Sum(__int128 count) : ticks(count) {}
    auto operator<=>(const Sum&) const = default;
};
constexpr Sum operator+(Sum a, Sum b) { return Sum{a.ticks + b.ticks}; }
constexpr Sum operator-(Sum a, Sum b) { return Sum{a.ticks - b.ticks}; }

// Decimal text to ticks: "0.0003" is 3. Finer than 0.0001, negative, not a number, or beyond 64 bits: an error that
// says which. Suffixes Ki Mi Gi Ti are understood for `memory` by the spec reader, not here.
Result<Amount> parse_amount(std::string_view text);
std::string to_text(Amount amount);  // shortest decimal: "0.5", "2"
std::string to_text(Sum sum);

// Sorted by name; a name that is absent counts as zero, and zero amounts are not stored.
// "GPU" in a *demand* is a sum wished for; what a node *has* in GPUs is a list of devices (Node::gpus_free).
using Resources = std::map<std::string, Amount, std::less<>>;
using Sums = std::map<std::string, Sum, std::less<>>;  // over nodes, workers or runs; the same rules

inline constexpr std::string_view gpu_key = "GPU";
inline constexpr std::string_view cpu_key = "CPU";
inline constexpr std::string_view memory_key = "memory";  // bytes

Amount amount_of(const Resources& resources, std::string_view name);
bool zero(const Resources& demand);  // true if each amount is 0
void add(Resources& into, const Resources& what);
void subtract(Resources& from, const Resources& what);  // RTRAIN_CHECK: never below zero
Sum amount_of(const Sums& sums, std::string_view name);
void add(Sums& into, const Resources& what);
void add(Sums& into, const Sums& what);
void subtract(Sums& from, const Resources& what);
void subtract(Sums& from, const Sums& what);
Resources saturated(const Sums& sums);                        // for a record: each as much as 64 bits hold
bool recorded_as(const Resources& record, const Sums& sums);  // record == saturated(sums)
// Of one node, or of one bundle: what is below zero or beyond `amount_at_most`, in words; none: nothing is.
std::optional<std::string> out_of_bounds(const Resources& of_one);

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
