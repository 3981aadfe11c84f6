// Converts the causes of a run's time, and advice about them, to JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "daemon/head/view/view.hpp"

namespace rtrain::head {

// Returns {"wall_ms", "ratio", "causes_ms": {"productive": ...}}. The causes add up to wall_ms.
nlohmann::json goodput_json(const View& view, const Run& run);
nlohmann::json advice_json(const View& view, const Run& run);  // returns a list of {"kind", "text"}
// Returns {"missing_ranks", "waiting_ranks", "since"} if some ranks wait in a report for others. Returns null if no
// rank waits for long.
nlohmann::json report_wait_json(const View& view, const Run& run);

}  // namespace rtrain::head
