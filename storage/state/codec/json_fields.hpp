// One table of fields for each struct serves writing and reading, so that both agree. A field that equals the struct's
// default is left out, and an absent field reads as its default. So fields may be added without a new version. This
// file defines the table's form and writing; record_json.hpp reads.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "scheduler/model/ids.hpp"
#include "scheduler/model/reason.hpp"
#include "scheduler/model/resources.hpp"
#include "storage/state/codec/json_text.hpp"

namespace rtrain::state {

// Thrown while reading if a newer version has written a kind that this version lacks. The data is not damaged.
struct UnknownKind : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class Struct, class Value>
struct Field {
    const char* name;
    Value Struct::* member;
};
template <class Struct, class Value>
// needed because Clang 16 does not deduce the template arguments of an aggregate
Field(const char*, Value Struct::*) -> Field<Struct, Value>;
template <class T>
struct Fields;  // Specialised with `static constexpr auto list = std::tuple(Field{...}, ...)`.
template <class T>
// The words of an enum. A specialisation has `static std::optional<T> parse(std::string_view)`; to_text() returns the
// word.
struct Words;

template <class T>
concept Described = requires { Fields<T>::list; };
template <class T>
concept Word = std::is_enum_v<T>;
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

// Counts the members of an aggregate. So the build fails if a member is added to a record without a field here.
struct Anything {
    template <class T>
    operator T() const;
};
template <class T, std::size_t... Index>
constexpr bool initialisable(std::index_sequence<Index...>) {
    return requires { T{(static_cast<void>(Index), Anything{})...}; };
}
template <class T>
inline constexpr std::size_t field_count = std::tuple_size_v<decltype(Fields<T>::list)>;
template <class T, std::size_t... Index>
constexpr bool all_members_listed(std::index_sequence<Index...>) {
    return initialisable<T>(std::index_sequence<Index...>{}) &&
           !initialisable<T>(std::make_index_sequence<sizeof...(Index) + 1>{});
}

// ---- writing: everything is appended to one string ------------------------------------------------------------------
inline void put(std::string& out, bool value) { out += value ? "true" : "false"; }
inline void put(std::string& out, const std::string& value) { append_string(out, value); }
inline void put(std::string& out, double value) { append_double(out, value); }
inline void put(std::string& out, Integer auto value) { out += std::to_string(value); }
inline void put(std::string& out, Word auto value) { append_string(out, to_text(value)); }
inline void put(std::string& out, Amount value) { put(out, value.ticks); }
inline void put(std::string& out, Sum value) { append_wide(out, value.ticks); }
void put(std::string& out, const Reason& reason);  // defined in reason_codec.cpp
inline void put(std::string& out, Time value) { put(out, value.ms); }
inline void put(std::string& out, Duration value) { put(out, value.ms); }
template <class Tag, class Value>
void put(std::string& out, const Id<Tag, Value>& id);
template <class T>
void put(std::string& out, const std::optional<T>& value);
template <class T>
void put(std::string& out, const std::vector<T>& values);
template <class T>
void put(std::string& out, const std::set<T>& values);
template <class Key, class T, class Order>
void put(std::string& out, const std::map<Key, T, Order>& values);
template <Described T>
void put(std::string& out, const T& value);

template <class T>
bool same(const T& a, const T& b) {
    return a == b;
}
inline bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

template <Described T>
// Appends `,"name":value` for each member that does not equal its default.
void put_members(std::string& out, const T& value) {
    static_assert(all_members_listed<T>(std::make_index_sequence<field_count<T>>{}),
                  "a member of T has no field: it would be lost on disk");
    [[maybe_unused]] static const T defaults{};
    auto put_one = [&](const auto& field) {
        if (same(value.*field.member, defaults.*field.member)) return;
        out += ',';
        append_string(out, field.name);
        out += ':';
        put(out, value.*field.member);
    };
    std::apply([&](const auto&... field) { (put_one(field), ...); }, Fields<T>::list);
}

template <Described T>
void put(std::string& out, const T& value) {
    std::size_t begin = out.size();
    put_members(out, value);
    if (begin == out.size())
        out += '{';
    else
        out[begin] = '{';
    out += '}';
}
template <class Tag, class Value>
void put(std::string& out, const Id<Tag, Value>& id) {
    put(out, id.value);
}
template <class T>
void put(std::string& out, const std::optional<T>& value) {
    if (value)
        put(out, *value);
    else
        out += "null";
}
template <class List>
void put_list(std::string& out, const List& values) {
    const char* before = "[";
    for (const auto& value : values) {
        out += std::exchange(before, ",");
        put(out, value);
    }
    out += values.empty() ? "[]" : "]";
}
template <class T>
void put(std::string& out, const std::vector<T>& values) {
    put_list(out, values);
}
template <class T>
void put(std::string& out, const std::set<T>& values) {
    put_list(out, values);
}
template <class Key, class T, class Order>
// a map with text keys is written as an object, any other map as a list of pairs
void put(std::string& out, const std::map<Key, T, Order>& values) {
    constexpr bool object = std::is_same_v<Key, std::string>;
    out += object ? '{' : '[';
    const char* before = "";
    for (const auto& [key, value] : values) {
        out += std::exchange(before, ",");
        if (!object) out += '[';
        put(out, key);
        out += object ? ':' : ',';
        put(out, value);
        if (!object) out += ']';
    }
    out += object ? '}' : ']';
}

}  // namespace rtrain::state
