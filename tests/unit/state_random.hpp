// Random values of every record and event, made with the tables of fields of the encoding (which are complete, as the
// compiler checks). Numbers come from a seed, so that a failure repeats.
#pragma once

#include <limits>
#include <random>

#include "storage/state/codec/event_fields.hpp"
#include "storage/state/codec/record_fields.hpp"

namespace rtrain::state {

struct Dice {
    std::mt19937_64 engine;
    bool with_nan = false;
    std::uint64_t below(std::uint64_t n) { return engine() % n; }
};

void fill(Dice& dice, bool& value);
void fill(Dice& dice, std::string& value);
void fill(Dice& dice, double& value);
void fill(Dice& dice, Integer auto& value);
void fill(Dice& dice, Word auto& value);
void fill(Dice& dice, Amount& value);
void fill(Dice& dice, Sum& value);
void fill(Dice& dice, Reason& value);
void fill(Dice& dice, Time& value);
void fill(Dice& dice, Duration& value);
template <class Tag, class Value>
void fill(Dice& dice, Id<Tag, Value>& id);
template <class T>
void fill(Dice& dice, std::optional<T>& value);
template <class T>
void fill(Dice& dice, std::vector<T>& values);
template <class T>
void fill(Dice& dice, std::set<T>& values);
template <class Key, class T, class Order>
void fill(Dice& dice, std::map<Key, T, Order>& values);

template <Described T>
void fill(Dice& dice, T& value) {
    std::apply([&](const auto&... field) { (fill(dice, value.*field.member), ...); }, Fields<T>::list);
}
inline void fill(Dice& dice, bool& value) { value = dice.below(2) == 1; }
inline void fill(Dice& dice, std::string& value) {
    static const std::vector<std::string> pieces = {
        "n1",   "a b",  "\"\\",         std::string(1, '\0'), "\n\t\x01\x1f\x7f", "é",  "日本",
        "\xff", "\xc3", "\xed\xa0\x80", "\xf4\x8f\xbc\x80",   "\xf4\x8f\xbf\xbf", "😀", "\xc0\x80"};
    value.clear();
    for (std::uint64_t n = dice.below(4); n > 0; --n) {
        value += pieces[dice.below(pieces.size())];
        if (dice.below(3) == 0) value += static_cast<char>(dice.below(256));
    }
}
inline void fill(Dice& dice, double& value) {
    static const std::vector<double> special = {0.0,
                                                -0.0,
                                                1.0,
                                                0.1,
                                                1e300,
                                                -5e-324,
                                                std::numeric_limits<double>::infinity(),
                                                -std::numeric_limits<double>::infinity(),
                                                1e20,
                                                9007199254740993.0};
    value = dice.below(2) == 0 ? special[dice.below(special.size())] : std::bit_cast<double>(dice.engine());
    if (value != value && !dice.with_nan) value = 3.5;
}
void fill(Dice& dice, Integer auto& value) {
    using T = std::remove_reference_t<decltype(value)>;
    switch (dice.below(4)) {
        case 0:
            value = std::numeric_limits<T>::max();
            return;
        case 1:
            value = std::numeric_limits<T>::min();
            return;
    }
    value = static_cast<T>(dice.engine() >> dice.below(64));
}
void fill(Dice& dice, Word auto& value) {
    using T = std::remove_reference_t<decltype(value)>;
    constexpr std::uint64_t words = std::is_same_v<T, RunState>        ? 9
                                    : std::is_same_v<T, AttemptState>  ? 8
                                    : std::is_same_v<T, WorkerState>   ? 3
                                    : std::is_same_v<T, AfterWhat>     ? 2
                                    : std::is_same_v<T, RequestReason> ? 5
                                    : std::is_same_v<T, Yielding>      ? 3
                                                                       : 4;
    value = static_cast<T>(dice.below(words));
}
inline void fill(Dice& dice, Amount& value) { fill(dice, value.ticks); }
inline void fill(Dice& dice, Sum& value) {
    Amount part;
    fill(dice, part);
    value = Sum{part.ticks * (dice.below(2) == 0 ? __int128{1} : __int128{1} << dice.below(48))};
}
inline void fill(Dice& dice, Time& value) { fill(dice, value.ms); }
inline void fill(Dice& dice, Duration& value) { fill(dice, value.ms); }
template <class Tag, class Value>
void fill(Dice& dice, Id<Tag, Value>& id) {
    fill(dice, id.value);
}
template <class T>
void fill(Dice& dice, std::optional<T>& value) {
    value.reset();
    if (dice.below(2) == 1) fill(dice, value.emplace());
}
template <class T>
void fill(Dice& dice, std::vector<T>& values) {
    values.clear();
    for (std::uint64_t n = dice.below(4); n > 0; --n) fill(dice, values.emplace_back());
}
template <class T>
void fill(Dice& dice, std::set<T>& values) {
    values.clear();
    for (std::uint64_t n = dice.below(4); n > 0; --n) {
        T value{};
        fill(dice, value);
        values.insert(std::move(value));
    }
}
template <class Key, class T, class Order>
void fill(Dice& dice, std::map<Key, T, Order>& values) {
    values.clear();
    for (std::uint64_t n = dice.below(4); n > 0; --n) {
        Key key{};
        fill(dice, key);
        fill(dice, values[key]);
    }
}
template <class Variant, std::size_t... Index>
Variant any_alternative(Dice& dice, std::size_t chosen, std::index_sequence<Index...>) {
    Variant value;
    ((Index == chosen ? fill(dice, value.template emplace<Index>()) : void()), ...);
    return value;
}
template <class Variant>
Variant random_value(Dice& dice, std::size_t alternative) {
    return any_alternative<Variant>(dice, alternative, std::make_index_sequence<std::variant_size_v<Variant>>{});
}
inline void fill(Dice& dice, Reason& reason) {
    reason = Reason::of(random_value<Reason::Value>(dice, dice.below(std::variant_size_v<Reason::Value>)));
}

}  // namespace rtrain::state
