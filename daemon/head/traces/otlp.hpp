// PURE: converts spans to the JSON body of an OTLP/HTTP request (ExportTraceServiceRequest).
// Source: OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding": ids are hexadecimal, 64-bit numbers are strings.
#pragma once

#include <string>
#include <vector>

#include "daemon/head/traces/spans.hpp"

namespace rtrain::head {

struct TraceSource {
    std::string cluster_id, cluster_name;
};
std::string otlp_json(const TraceSource& source, const std::vector<Span>& spans);

}  // namespace rtrain::head
