// Encodes events as text: {"v":1,"type":"RunSubmitted",...}.
#include "storage/state/codec/codec.hpp"
#include "storage/state/codec/event_fields.hpp"
#include "storage/state/codec/text.hpp"

namespace rtrain::state {

std::string encode(const Event& event) { return encode_variant(event); }
Result<Event> decode_event(const std::string& text) { return decode_variant<Event>("an event", text); }
std::string event_kind(const Event& event) {
    return std::visit([]<class T>(const T&) { return std::string(Fields<T>::type); }, event);
}

}  // namespace rtrain::state
