// The causes of a run's time, and advice about them, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "daemon/head/view/view.hpp"

namespace rtrain::head {

// {"wall_ms", "ratio", "causes_ms": {"productive": ...}}; the causes sum to wall_ms.
nlohmann::json goodput_json(const View& view, const Run& run);
nlohmann::json advice_json(const View& view, const Run& run);  // [{"kind", "text"}]
// Returns {"missing_ranks", "waiting_ranks", "since"} if some ranks wait in a report for others; null if none waits for
// long.
nlohmann::json report_wait_json(const View& view, const Run& run);

}  // namespace rtrain::head
