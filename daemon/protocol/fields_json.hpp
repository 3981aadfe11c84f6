// Values to JSON and back, driven by one list of fields per message (messages.cpp), so that both directions agree.
// Reading: unknown fields are ignored, missing ones keep their default, a wrong type is remembered with its field's
// path.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "daemon/protocol/messages.hpp"

namespace rtrain::protocol {

using nlohmann::json;

std::string base64_encode(const std::string& bytes);
std::optional<std::string> base64_decode(const std::string& text);

// A string of bytes, not text: base64 on the wire.
struct Bytes {
    std::string& bytes;
};

template <class T>
concept Message = std::is_class_v<T> && !std::same_as<T, std::string> && !std::same_as<T, Amount>;

class Writer {
  public:
    template <class T>
    void operator()(const char* name, const T& value) {
        object_[name] = encoded(value);
    }
    void operator()(const char* name, Bytes value) { object_[name] = base64_encode(value.bytes); }
    json take() { return std::move(object_); }

    template <class T>
        requires std::is_arithmetic_v<T>
    static json encoded(const T& value) {
        return value;
    }
    static json encoded(const std::string& value) { return value; }
    static json encoded(const Amount& value) { return value.ticks; }
    template <class T>
    static json encoded(const std::optional<T>& value) {
        return value ? encoded(*value) : json();
    }
    template <class T>
    static json encoded(const std::vector<T>& values) {
        json out = json::array();
        for (const T& value : values) out.push_back(encoded(value));
        return out;
    }
    template <class K, class T, class C>
    static json encoded(const std::map<K, T, C>& values) {
        json out = json::object();
        for (const auto& [key, value] : values) {
            if constexpr (std::is_arithmetic_v<K>)
                out[std::to_string(key)] = encoded(value);
            else
                out[key] = encoded(value);
        }
        return out;
    }
    template <Message T>
    static json encoded(const T& value) {
        Writer inner;
        fields(inner, const_cast<T&>(value));  // the list is written once, for a mutable value; writing changes nothing
        return inner.take();
    }

  private:
    json object_ = json::object();
};

class Reader {
  public:
    Reader(const json& object, std::string path, std::string& wrong)
        : object_(object), path_(std::move(path)), wrong_(wrong) {}

    template <class T>
    void operator()(const char* name, T& value) {
        const auto found = object_.find(name);
        if (found != object_.end() && !found->is_null()) decoded(*found, path_ + name, value);
    }
    void operator()(const char* name, Bytes value) {
        std::string text;
        (*this)(name, text);
        if (auto bytes = base64_decode(text))
            value.bytes = std::move(*bytes);
        else
            complain(path_ + name, "is not base64");
    }

  private:
    void complain(const std::string& field, const std::string& why) {
        if (wrong_.empty()) wrong_ = "field '" + field + "' " + why;
    }
    void decoded(const json& in, const std::string& at, std::string& out) {
        if (!in.is_string()) return complain(at, "is not a string");
        out = in.get<std::string>();
    }
    void decoded(const json& in, const std::string& at, bool& out) {
        if (!in.is_boolean()) return complain(at, "is not true or false");
        out = in.get<bool>();
    }
    void decoded(const json& in, const std::string& at, Amount& out) { decoded(in, at, out.ticks); }
    template <std::integral T>
    void decoded(const json& in, const std::string& at, T& out) {
        if (!in.is_number_integer()) return complain(at, "is not an integer");
        const bool large =
            in.is_number_unsigned() && in.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
        if (large ? !std::in_range<T>(in.get<std::uint64_t>()) : !std::in_range<T>(in.get<std::int64_t>()))
            return complain(at, "is out of range");
        out = in.get<T>();
    }
    template <class T>
    void decoded(const json& in, const std::string& at, std::optional<T>& out) {
        decoded(in, at, out.emplace());
    }
    template <class T>
    void decoded(const json& in, const std::string& at, std::vector<T>& out) {
        if (!in.is_array()) return complain(at, "is not a list");
        for (const json& one : in) {
            const std::string place = at + "[" + std::to_string(out.size()) + "]";
            decoded(one, place, out.emplace_back());
        }
    }
    template <class K, class T, class C>
    void decoded(const json& in, const std::string& at, std::map<K, T, C>& out) {
        if (!in.is_object()) return complain(at, "is not an object");
        for (const auto& [text, one] : in.items()) {
            K key{};
            if constexpr (std::is_arithmetic_v<K>) {
                const json number = json::parse(text, nullptr, false);
                decoded(number, at + "." + text, key);
            } else {
                key = text;
            }
            decoded(one, at + "." + text, out[key]);
        }
    }
    template <Message T>
    void decoded(const json& in, const std::string& at, T& out) {
        if (!in.is_object()) return complain(at, "is not an object");
        Reader inner(in, at + ".", wrong_);
        fields(inner, out);
    }

    const json& object_;
    std::string path_;
    std::string& wrong_;
};

}  // namespace rtrain::protocol
