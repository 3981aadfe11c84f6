// Reads durations and amounts as people write them.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "storage/job_spec/fields/row_words.hpp"

namespace rtrain::spec {
namespace {

struct Unit {
    std::string_view name;
    std::int64_t size;
};
constexpr std::array time_units = {Unit{"d", 86'400'000}, Unit{"h", 3'600'000}, Unit{"m", 60'000}, Unit{"s", 1'000},
                                   Unit{"ms", 1}};
constexpr std::array byte_units = {Unit{"Ki", 1LL << 10}, Unit{"Mi", 1LL << 20}, Unit{"Gi", 1LL << 30},
                                   Unit{"Ti", 1LL << 40}};

}  // namespace

std::optional<std::int64_t> duration_ms(std::string_view text) {
    std::int64_t sum = 0;
    while (!text.empty()) {
        std::int64_t count = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), count);
        if (failed != std::errc{}) return std::nullopt;
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        const std::string_view name = text.substr(0, std::min(text.find_first_of("0123456789"), text.size()));
        const Unit* unit = nullptr;
        for (const Unit& candidate : time_units)
            if (candidate.name == name) unit = &candidate;
        if (unit == nullptr || __builtin_mul_overflow(count, unit->size, &count) ||
            __builtin_add_overflow(sum, count, &sum))
            return std::nullopt;
        text.remove_prefix(name.size());
    }
    return sum;
}

std::string duration_text(std::int64_t ms) {
    for (const Unit& unit : time_units)
        if (ms != 0 && ms % unit.size == 0) return std::to_string(ms / unit.size) + std::string(unit.name);
    return "0s";
}

Result<Amount> amount_from(std::string_view resource, const Value& value) {
    std::string_view text = value.kind == Kind::number ? value.raw : value.text;
    for (const Unit& unit : byte_units) {
        if (!text.ends_with(unit.name)) continue;
        if (resource != memory_key)
            return Error{ErrorCode::invalid, shown(text) + ": Ki, Mi, Gi and Ti are for memory only", ""};
        auto amount = parse_amount(text.substr(0, text.size() - 2));
        if (!amount) return amount;
        if (__builtin_mul_overflow(amount->ticks, unit.size, &amount->ticks))
            return Error{ErrorCode::invalid, shown(text) + " is more than the largest amount, 363Ti", ""};
        return amount;
    }
    return parse_amount(text);
}

std::int64_t byte_count(std::string_view text) {
    std::int64_t count = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), count);
    const std::string_view name(end,
                                std::min<std::size_t>(2, text.size() - static_cast<std::size_t>(end - text.data())));
    for (const Unit& unit : byte_units)
        if (failed == std::errc{} && unit.name == name) return count * unit.size;
    return count;
}

nlohmann::json byte_count_json(std::int64_t bytes) {
    for (auto unit = byte_units.rbegin(); unit != byte_units.rend(); ++unit)
        if (bytes % unit->size == 0 && bytes / unit->size < 1'000'000)
            return std::to_string(bytes / unit->size) + std::string(unit->name);
    return bytes;
}

std::int64_t whole_number(const Value& value) {
    std::int64_t number = 0;
    const auto [end, failed] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
    if (failed == std::errc{} && end == value.text.data() + value.text.size()) return number;
    constexpr double most = 9'223'372'036'854'774'784.0;  // the largest double below 2^63
    return static_cast<std::int64_t>(
        // "4.0" is a whole number too; a number beyond 64 bits becomes the nearest one within 64 bits
        std::clamp(real_number(value), -most, most));
}

double real_number(const Value& value) { return std::strtod(value.text.c_str(), nullptr); }

}  // namespace rtrain::spec
