// Encodes reasons as text: {"kind":"stopped_by","user":"ana"}. A database before version 5 holds reasons as sentences,
// which are plain strings.
#include "storage/state/codec/reason_fields.hpp"
#include "storage/state/codec/record_json.hpp"

namespace rtrain::state {
namespace {

template <std::size_t Index = 0>
void take_kind(const Json& json, const std::string& kind, Reason::Value& value) {
    if constexpr (Index < std::variant_size_v<Reason::Value>) {
        if (kind != std::variant_alternative_t<Index, Reason::Value>::kind)
            return take_kind<Index + 1>(json, kind, value);
        take(json, value.template emplace<Index>());
    } else {
        throw UnknownKind("a reason of the kind \"" + kind + "\"");
    }
}

}  // namespace

void put(std::string& out, const Reason& reason) {
    out += "{\"kind\":";
    append_string(out, kind_of(reason));
    std::visit([&](const auto& what) { put_members(out, what); }, reason.value());
    out += '}';
}

void take(const Json& json, Reason& reason) {
    Reason::Value value;
    if (!json.is_string()) {
        take_kind(json, json.at("kind").get<std::string>(), value);
    } else if (reasons::Text old; take(json, old.text), !old.text.empty()) {
        value = std::move(old);
    }
    reason = Reason::of(std::move(value));
}

}  // namespace rtrain::state
