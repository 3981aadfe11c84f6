// Converts values to JSON and back, by one list of fields per message (messages.cpp), so that both directions agree.
// When reading, unknown fields are ignored, missing ones keep their default, and the path of a field with a wrong type
// is stored.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::protocol {

using nlohmann::json;

// A string of bytes that are not text: base64 on the wire.
struct Bytes {
    std::string& bytes;
};

template <class T>
concept Message = std::is_class_v<T> && !std::same_as<T, std::string> && !std::same_as<T, Amount>;

// Writes text in quotes. Bytes that are not UTF-8 become replacement characters, so no message is lost because of a
// worker's odd name.
void append_text(std::string& out, std::string_view text);

// Writes one JSON object field by field without building a tree, because it handles a message about each report.
class Writer {
  public:
    explicit Writer(std::string& out) : out_(out) { out_ += '{'; }
    void end() { out_ += '}'; }

    template <class T>
    void operator()(std::string_view name, const T& value) {
        key(name);
        add(value);
    }
    void operator()(std::string_view name, Bytes value) {
        key(name);
        append_text(out_, storage::base64_encode(value.bytes));
    }
    // Writes a list of objects, each by `write(Writer&, item)`.
    template <class T, class Write>
    void objects(std::string_view name, const std::vector<T>& items, Write write) {
        key(name);
        list(items, [&](const T& item) {
            Writer inner(out_);
            write(inner, item);
            inner.end();
        });
    }

  private:
    void key(std::string_view name) {
        if (std::exchange(begun_, true)) out_ += ',';
        append_text(out_, name);
        out_ += ':';
    }
    template <class T, class Write>
    void list(const std::vector<T>& items, Write write) {
        out_ += '[';
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i > 0) out_ += ',';
            write(items[i]);
        }
        out_ += ']';
    }
    void add(bool value) { out_ += value ? "true" : "false"; }
    template <std::integral T>
    void add(T value) {
        out_ += std::to_string(value);
    }
    void add(std::string_view value) { append_text(out_, value); }
    void add(const Amount& value) { add(value.ticks); }
    template <class T>
    void add(const std::optional<T>& value) {
        if (value)
            add(*value);
        else
            out_ += "null";
    }
    template <class T>
    void add(const std::vector<T>& values) {
        list(values, [this](const T& value) { add(value); });
    }
    template <class K, class T, class C>
    void add(const std::map<K, T, C>& values) {
        Writer inner(out_);
        for (const auto& [key, value] : values) {
            if constexpr (std::is_arithmetic_v<K>)
                inner(std::to_string(key), value);
            else
                inner(key, value);
        }
        inner.end();
    }
    template <Message T>
    void add(const T& value) {
        Writer inner(out_);
        // One list serves both directions and takes a mutable value; writing changes nothing.
        fields(inner, const_cast<T&>(value));
        inner.end();
    }

    std::string& out_;
    bool begun_ = false;
};

class Reader {
  public:
    Reader(const json& object, std::string path, std::string& wrong)
        : object_(object), path_(std::move(path)), wrong_(wrong) {}

    template <class T>
    void operator()(const char* name, T& value) {
        const auto entry = object_.find(name);
        if (entry != object_.end() && !entry->is_null()) decoded(*entry, path_ + name, value);
    }
    void operator()(const char* name, Bytes value) {
        std::string text;
        (*this)(name, text);
        if (auto bytes = storage::base64_decode(text))
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
        for (const json& element : in) {
            const std::string place = at + "[" + std::to_string(out.size()) + "]";
            decoded(element, place, out.emplace_back());
        }
    }
    template <class K, class T, class C>
    void decoded(const json& in, const std::string& at, std::map<K, T, C>& out) {
        if (!in.is_object()) return complain(at, "is not an object");
        for (const auto& [text, value] : in.items()) {
            K key{};
            if constexpr (std::is_arithmetic_v<K>) {
                const json number = parse_json(text);
                decoded(number, at + "." + text, key);
            } else {
                key = text;
            }
            decoded(value, at + "." + text, out[key]);
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
