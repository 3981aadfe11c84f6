// Exact amounts: decimal text to ticks of 1/10,000 and back, and sums by resource name.
#include "scheduler/model/resources.hpp"

#include <algorithm>
#include <limits>

namespace rtrain {
namespace {

Error bad_amount(std::string_view text, const std::string& why) {
    return {ErrorCode::invalid, "\"" + std::string(text) + "\" is not an amount: " + why,
            "write a decimal such as 2 or 0.5, in steps of 0.0001"};
}

bool digit(char c) { return c >= '0' && c <= '9'; }

// Appends one decimal digit. Returns false if 64 bits are too few.
bool append(std::int64_t& ticks, char c) {
    return !__builtin_mul_overflow(ticks, std::int64_t{10}, &ticks) &&
           !__builtin_add_overflow(ticks, std::int64_t{c - '0'}, &ticks);
}

template <class Into, class What>
void add_each(Into& into, const What& what) {
    for (const auto& [name, amount] : what) {
        if (amount.ticks == 0) continue;
        auto& sum = into[name];
        sum = sum + amount;
        if (sum.ticks == 0) into.erase(name);
    }
}

template <class From, class What>
void subtract_each(From& from, const What& what) {
    for (const auto& [name, amount] : what) {
        if (amount.ticks == 0) continue;
        const auto entry = from.find(name);
        RTRAIN_CHECK(entry != from.end() && amount <= entry->second, "subtracting " + to_text(amount) + " " + name);
        entry->second = entry->second - amount;
        if (entry->second.ticks == 0) from.erase(entry);
    }
}

Amount in_64_bits(Sum sum) {
    constexpr __int128 most = std::numeric_limits<std::int64_t>::max();
    return {static_cast<std::int64_t>(std::min(sum.ticks, most))};
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

std::string to_text(Sum sum) {
    const auto size = static_cast<unsigned __int128>(sum.ticks < 0 ? -sum.ticks : sum.ticks);
    std::string whole;
    for (auto left = size / Amount::per_unit; left != 0 || whole.empty(); left /= 10)
        whole.insert(whole.begin(), static_cast<char>('0' + static_cast<int>(left % 10)));
    const std::string text = (sum.ticks < 0 ? "-" : "") + whole;
    const auto rest = static_cast<std::int64_t>(size % Amount::per_unit);
    if (rest == 0) return text;
    std::string decimals = std::to_string(Amount::per_unit + rest).substr(1);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    return text + "." + decimals;
}

std::string to_text(Amount amount) { return to_text(Sum{amount}); }

Amount amount_of(const Resources& resources, std::string_view name) {
    const auto entry = resources.find(name);
    return entry == resources.end() ? Amount{} : entry->second;
}

bool zero(const Resources& demand) {
    return std::all_of(demand.begin(), demand.end(), [](const auto& entry) { return entry.second.ticks == 0; });
}

Sum amount_of(const Sums& sums, std::string_view name) {
    const auto entry = sums.find(name);
    return entry == sums.end() ? Sum{} : entry->second;
}

void add(Resources& into, const Resources& what) { add_each(into, what); }
void add(Sums& into, const Resources& what) { add_each(into, what); }
void add(Sums& into, const Sums& what) { add_each(into, what); }
void subtract(Resources& from, const Resources& what) { subtract_each(from, what); }
void subtract(Sums& from, const Resources& what) { subtract_each(from, what); }
void subtract(Sums& from, const Sums& what) { subtract_each(from, what); }

Resources saturated(const Sums& sums) {
    Resources record;
    for (const auto& [name, sum] : sums) record.emplace(name, in_64_bits(sum));
    return record;
}

bool recorded_as(const Resources& record, const Sums& sums) {
    return std::equal(record.begin(), record.end(), sums.begin(), sums.end(), [](const auto& amount, const auto& sum) {
        return amount.first == sum.first && amount.second == in_64_bits(sum.second);
    });
}

std::optional<std::string> out_of_bounds(const Resources& of_one) {
    for (const auto& [name, amount] : of_one)
        if (amount < Amount{} || amount > amount_at_most)
            return to_text(amount) + " " + name + ", an amount is from 0 to " + to_text(amount_at_most);
    return std::nullopt;
}

}  // namespace rtrain
