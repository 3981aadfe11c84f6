// Converts records and events to text, and back.
#pragma once

#include <string>

#include "base/result.hpp"
#include "scheduler/model/events.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain::state {

// Returns JSON with a version. Keeps unknown fields of a newer minor version. Equal values give equal bytes.
std::string encode(const Record& record);
Result<Record> decode_record(const std::string& text);
std::string encode(const Event& event);
Result<Event> decode_event(const std::string& text);
std::string event_kind(const Event& event);

}  // namespace rtrain::state
