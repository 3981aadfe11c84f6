// Reads by the tables of fields (json_fields.hpp). Throws std::exception with the field's name, which codec.hpp turns
// into an Error.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "storage/state/codec/json_fields.hpp"

namespace rtrain::state {

using Json = nlohmann::json;

inline void take(const Json& json, bool& value) { value = json.get_ref<const Json::boolean_t&>(); }
inline void take(const Json& json, std::string& value) { value = bytes_of(json.get_ref<const std::string&>()); }
inline void take(const Json& json, double& value) {
    value = json.is_string() ? double_of_bits(json.get_ref<const std::string&>())
                             : (json.is_number() ? json.get<double>() : throw std::invalid_argument("not a number"));
}
template <Integer T>
void take(const Json& json, T& value) {
    bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                          : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    if (!fits) throw std::invalid_argument("not an integer of its size");
    value = json.get<T>();
}
template <Word T>
void take(const Json& json, T& value) {
    const auto& word = json.get_ref<const std::string&>();
    std::optional<T> known = Words<T>::parse(word);
    if (!known) throw std::invalid_argument("unknown word \"" + word + "\"");
    value = *known;
}
inline void take(const Json& json, Amount& value) { take(json, value.ticks); }
inline void take(const Json& json, Sum& value) {
    std::int64_t ticks = 0;
    if (json.is_string())
        value = Sum{wide_of_digits(json.get_ref<const std::string&>())};
    else
        take(json, ticks), value = Sum{__int128{ticks}};
}
void take(const Json& json, Reason& reason);  // defined in reason_codec.cpp
inline void take(const Json& json, Time& value) { take(json, value.ms); }
inline void take(const Json& json, Duration& value) { take(json, value.ms); }
template <class Tag, class Value>
void take(const Json& json, Id<Tag, Value>& id);
template <class T>
void take(const Json& json, std::optional<T>& value);
template <class T>
void take(const Json& json, std::vector<T>& values);
template <class T>
void take(const Json& json, std::set<T>& values);
template <class Key, class T, class Order>
void take(const Json& json, std::map<Key, T, Order>& values);

template <Described T>
void take(const Json& json, T& value) {
    if (!json.is_object()) throw std::invalid_argument("not an object");
    // The name of the field that is being read. One handler for all fields needs a third of the code that one per field
    // would need.
    const char* name = "";
    auto take_one = [&](const auto& field) {
        name = field.name;
        if (auto entry = json.find(field.name); entry != json.end()) take(*entry, value.*field.member);
    };
    try {
        std::apply([&](const auto&... field) { (take_one(field), ...); }, Fields<T>::list);
    } catch (const UnknownKind&) { throw; } catch (const std::exception& wrong) {
        throw std::invalid_argument(std::string(name) + ": " + wrong.what());
    }
}
template <class Tag, class Value>
void take(const Json& json, Id<Tag, Value>& id) {
    take(json, id.value);
}
template <class T>
void take(const Json& json, std::optional<T>& value) {
    value.reset();
    if (!json.is_null()) take(json, value.emplace());
}
template <class T>
void take(const Json& json, std::vector<T>& values) {
    values.clear();
    for (const Json& item : json.get_ref<const Json::array_t&>()) take(item, values.emplace_back());
}
template <class T>
void take(const Json& json, std::set<T>& values) {
    values.clear();
    for (const Json& item : json.get_ref<const Json::array_t&>()) {
        T value{};
        take(item, value);
        values.insert(std::move(value));
    }
}
template <class Key, class T, class Order>
void take(const Json& json, std::map<Key, T, Order>& values) {
    values.clear();
    if constexpr (std::is_same_v<Key, std::string>) {
        for (const auto& [key, item] : json.get_ref<const Json::object_t&>()) take(item, values[bytes_of(key)]);
    } else {
        for (const Json& pair : json.get_ref<const Json::array_t&>()) {
            Key key{};
            take(pair.at(0), key);
            take(pair.at(1), values[key]);
        }
    }
}

}  // namespace rtrain::state
