// PURE: reads where to send traces from OpenTelemetry's variables (OpenTelemetry specification, "OTLP Exporter
// Configuration").
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace rtrain::head {

struct TraceSettings {
    std::string url;      // URL of /v1/traces; empty: no traces
    std::string shown;    // the URL for messages, without parts that may be secret
    std::string ca_file;  // file with CA certificates; empty: the system's
    std::vector<std::pair<std::string, std::string>> headers;
};

using Lookup = std::function<std::optional<std::string>(const std::string& variable)>;
// Error `usage`: a variable is set to a value that is not understood.
Result<TraceSettings> trace_settings(const Lookup& lookup);

}  // namespace rtrain::head
