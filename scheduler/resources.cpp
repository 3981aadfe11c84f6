// Exact amounts: decimal text to ticks of 1/10,000 and back, and sums by resource name.
#include "scheduler/resources.hpp"

#include <limits>

namespace rtrain {
namespace {

Error bad_amount(std::string_view text, const std::string& why) {
    return {ErrorCode::invalid, "\"" + std::string(text) + "\" is not an amount: " + why,
            "write a decimal such as 2 or 0.5, in steps of 0.0001"};
}

bool digit(char c) { return c >= '0' && c <= '9'; }

// Appends one decimal digit; false when 64 bits are not enough.
bool append(std::int64_t& ticks, char c) {
    return !__builtin_mul_overflow(ticks, std::int64_t{10}, &ticks) &&
           !__builtin_add_overflow(ticks, std::int64_t{c - '0'}, &ticks);
}

}  // namespace

Result<Amount> parse_amount(std::string_view text) {
    if (text.empty()) return bad_amount(text, "it is empty");
    if (text[0] == '-') return bad_amount(text, "it is negative");
    std::int64_t ticks = 0;
    std::size_t at = 0, digits = 0, decimals = 0;
    for (; at < text.size() && digit(text[at]); ++at, ++digits)
        if (!append(ticks, text[at])) return bad_amount(text, "it is beyond 64 bits");
    if (at < text.size() && text[at] == '.') {
        for (++at; at < text.size() && digit(text[at]); ++at, ++digits) {
            if (decimals == 4 && text[at] != '0') return bad_amount(text, "it is finer than 0.0001");
            if (decimals == 4) continue;
            if (!append(ticks, text[at])) return bad_amount(text, "it is beyond 64 bits");
            ++decimals;
        }
    }
    if (at != text.size() || digits == 0 || text.back() == '.') return bad_amount(text, "it is not a number");
    for (; decimals < 4; ++decimals)
        if (!append(ticks, '0')) return bad_amount(text, "it is beyond 64 bits");
    return Amount{ticks};
}

std::string to_text(Amount amount) {
    const std::uint64_t size =
        amount.ticks < 0 ? 0 - static_cast<std::uint64_t>(amount.ticks) : static_cast<std::uint64_t>(amount.ticks);
    std::string text = (amount.ticks < 0 ? "-" : "") + std::to_string(size / Amount::per_unit);
    const std::uint64_t rest = size % Amount::per_unit;
    if (rest == 0) return text;
    std::string decimals = std::to_string(Amount::per_unit + rest).substr(1);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    return text + "." + decimals;
}

Amount amount_of(const Resources& resources, std::string_view name) {
    const auto found = resources.find(name);
    return found == resources.end() ? Amount{} : found->second;
}

void add(Resources& into, const Resources& what) {
    for (const auto& [name, amount] : what) {
        if (amount.ticks == 0) continue;
        Amount& sum = into[name];
        sum = sum + amount;
        if (sum.ticks == 0) into.erase(name);
    }
}

void subtract(Resources& from, const Resources& what) {
    for (const auto& [name, amount] : what) {
        if (amount.ticks == 0) continue;
        const auto found = from.find(name);
        RTRAIN_CHECK(found != from.end() && amount <= found->second, "subtracting " + to_text(amount) + " " + name);
        found->second = found->second - amount;
        if (found->second.ticks == 0) from.erase(found);
    }
}

}  // namespace rtrain
