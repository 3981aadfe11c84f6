// See otlp.hpp.
#include "daemon/head/traces/otlp.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr int kind_internal = 1, status_ok = 1, status_error = 2;

json attribute(const std::string& key, const std::variant<std::string, std::int64_t>& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return {{"key", key}, {"value", {{"stringValue", *text}}}};
    return {{"key", key}, {"value", {{"intValue", std::to_string(std::get<std::int64_t>(value))}}}};
}

std::string nanoseconds(std::int64_t wall_ms) { return std::to_string(wall_ms) + "000000"; }

json span_json(const Span& span) {
    json attributes = json::array();
    for (const auto& [key, value] : span.attributes) attributes.push_back(attribute(key, value));
    json out = {{"traceId", span.trace},
                {"spanId", span.id},
                {"name", span.name},
                {"kind", kind_internal},
                {"startTimeUnixNano", nanoseconds(span.begin_wall_ms)},
                {"endTimeUnixNano", nanoseconds(span.end_wall_ms)},
                {"attributes", std::move(attributes)},
                {"status", {{"code", span.failed ? status_error : status_ok}}}};
    if (!span.parent.empty()) out["parentSpanId"] = span.parent;
    return out;
}

}  // namespace

std::string otlp_json(const TraceSource& source, const std::vector<Span>& spans) {
    json list = json::array();
    for (const Span& span : spans) list.push_back(span_json(span));
    const json resource = {
        {"attributes",
         {attribute("service.name", "rtrain-head"), attribute("service.version", RTRAIN_VERSION),
          attribute("service.instance.id", source.cluster_id), attribute("rtrain.cluster", source.cluster_name)}}};
    const json scope = {{"name", "rtrain"}, {"version", RTRAIN_VERSION}};
    return json_text({{"resourceSpans",
                       {{{"resource", resource}, {"scopeSpans", {{{"scope", scope}, {"spans", std::move(list)}}}}}}}});
}

}  // namespace rtrain::head
