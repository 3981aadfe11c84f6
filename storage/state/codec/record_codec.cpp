// Encodes records as text: {"v":1,"type":"Run",...}.
#include "storage/state/codec/codec.hpp"
#include "storage/state/codec/record_fields.hpp"
#include "storage/state/codec/text.hpp"

namespace rtrain::state {

std::string encode(const Record& record) { return encode_variant(record); }
Result<Record> decode_record(const std::string& text) { return decode_variant<Record>("a record", text); }
std::string unknown_members(const std::string& text, const Record& record) { return members_beyond(text, record); }

}  // namespace rtrain::state
