// Amounts of named resources, exact: 64-bit counts of 1/10,000 ("ticks"), never floating point.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rtrain {

struct Amount {
    static constexpr std::int64_t per_unit = 10'000;
    std::int64_t ticks = 0;
    auto operator<=>(const Amount&) const = default;
};
constexpr Amount units(std::int64_t n) { return {n * Amount::per_unit}; }
constexpr Amount operator+(Amount a, Amount b) { return {a.ticks + b.ticks}; }
constexpr Amount operator-(Amount a, Amount b) { return {a.ticks - b.ticks}; }
// The most of one node or one bundle, so that the sum of two fits into 64 bits.
inline constexpr Amount amount_at_most = units(400'000'000'000'000);

// A sum over many nodes or runs. 64 bits of ticks are 839 TiB of memory, which a cluster may exceed.
struct Sum {
    __int128 ticks = 0;
    constexpr Sum() = default;
    constexpr Sum(Amount amount) : ticks(amount.ticks) {}
    constexpr explicit Sum(__int128 count) : ticks(count) {}
    auto operator<=>(const Sum&) const = default;
};
constexpr Sum operator+(Sum a, Sum b) { return Sum{a.ticks + b.ticks}; }
constexpr Sum operator-(Sum a, Sum b) { return Sum{a.ticks - b.ticks}; }

// Parses decimal text into ticks: "0.0003" is 3. Returns an error that names the fault for text that is finer than
// 0.0001, negative, not a number, or beyond 64 bits. The reader of job specs handles the suffixes Ki Mi Gi Ti of
// `memory`.
Result<Amount> parse_amount(std::string_view text);
std::string to_text(Amount amount);  // shortest decimal: "0.5", "2"
std::string to_text(Sum sum);

// Sorted by name. An absent name counts as zero, and zero amounts are not stored. "GPU" in a demand is a number of
// GPUs; a node has a list of devices instead (Node::gpus_free).
using Resources = std::map<std::string, Amount, std::less<>>;
using Sums = std::map<std::string, Sum, std::less<>>;  // over nodes, workers or runs; the same rules hold

inline constexpr std::string_view gpu_key = "GPU";
inline constexpr std::string_view cpu_key = "CPU";
inline constexpr std::string_view memory_key = "memory";  // the amount of memory is in bytes

Amount amount_of(const Resources& resources, std::string_view name);
bool zero(const Resources& demand);  // true if each amount is 0
void add(Resources& into, const Resources& what);
void subtract(Resources& from, const Resources& what);  // Invariant (RTRAIN_CHECK): the result is never below zero
Sum amount_of(const Sums& sums, std::string_view name);
void add(Sums& into, const Resources& what);
void add(Sums& into, const Sums& what);
void subtract(Sums& from, const Resources& what);
void subtract(Sums& from, const Sums& what);
Resources saturated(const Sums& sums);  // converts sums for a record: caps each sum at what 64 bits hold
bool recorded_as(const Resources& record, const Sums& sums);  // true if record == saturated(sums)
// Returns a text that names the amounts below zero or above `amount_at_most`; nullopt if there are none.
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
