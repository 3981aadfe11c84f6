// Encodes a closed set of structs as text and decodes it: the version, the alternative's name, then its fields. Only
// the two codecs include this file, because it includes the JSON library.
#pragma once

#include <set>
#include <string>
#include <variant>

#include "base/json_text.hpp"
#include "base/result.hpp"
#include "storage/state/codec/record_json.hpp"

namespace rtrain::state {

// version of the texts; raise it if an older program would misunderstand a newer text
inline constexpr int text_version = 1;

template <class Variant>
std::string encode_variant(const Variant& value) {
    std::string out = "{\"v\":" + std::to_string(text_version) + ",\"type\":";
    std::visit(
        [&]<class T>(const T& alternative) {
            append_string(out, Fields<T>::type);
            put_members(out, alternative);
        },
        value);
    out += '}';
    return out;
}

template <class Variant, std::size_t Index = 0>
bool take_alternative(const Json& json, const std::string& type, Variant& value) {
    if constexpr (Index < std::variant_size_v<Variant>) {
        using T = std::variant_alternative_t<Index, Variant>;
        if (type == Fields<T>::type) {
            take(json, value.template emplace<Index>());
            return true;
        }
        return take_alternative<Variant, Index + 1>(json, type, value);
    }
    return false;
}

template <class Variant>
Result<Variant> decode_variant(const std::string& what, const std::string& text) {
    try {
        Json json = parse_json(text);
        if (json.is_discarded())
            return Error{ErrorCode::damaged, what + " cannot be read: it is not JSON",
                         "rtrain head restore-backup FILE"};
        int version = json.at("v").get<int>();
        if (version > text_version)
            return Error{ErrorCode::conflict,
                         what + " was written by a newer rtrain (version " + std::to_string(version) +
                             ", this one reads " + std::to_string(text_version) + ")",
                         "start the newer rtrain again"};
        std::string type = json.at("type").get<std::string>();
        Variant value;
        if (take_alternative(json, type, value)) return value;
        return Error{ErrorCode::conflict, what + " is of the kind \"" + type + "\", which this rtrain does not know",
                     "start the newer rtrain again"};
    } catch (const UnknownKind& newer) {
        return Error{ErrorCode::conflict, what + " has " + newer.what() + ", which this rtrain does not know",
                     "start the newer rtrain again"};
    } catch (const std::exception& wrong) {
        return Error{ErrorCode::damaged, what + " cannot be read: " + wrong.what(), "rtrain head restore-backup FILE"};
    }
}

// Returns `,"name":value` for each member of the text that no table of fields lists. A newer minor version has written
// such members, and they are kept.
template <class Variant>
std::string members_beyond(const std::string& text, const Variant& value) {
    std::set<std::string> known = {"v", "type"};
    std::visit(
        [&]<class T>(const T&) {
            std::apply([&](const auto&... field) { (known.insert(field.name), ...); }, Fields<T>::list);
        },
        value);
    std::string out;
    Json json = parse_json(text);
    for (const auto& [name, member] : json.items())
        if (!known.contains(name)) out += "," + json_text(Json(name)) + ":" + json_text(member);
    return out;
}

}  // namespace rtrain::state
