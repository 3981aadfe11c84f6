// See settings.hpp.
#include "daemon/head/traces/settings.hpp"

#include <algorithm>

#include "base/percent.hpp"

namespace rtrain::head {
namespace {

// Returns the value of the variable for traces only. If it is not set, returns the value of the variable for all
// signals.
std::optional<std::string> of_traces(const Lookup& lookup, const std::string& what) {
    if (auto own = lookup("OTEL_EXPORTER_OTLP_TRACES_" + what); own && !own->empty()) return own;
    return lookup("OTEL_EXPORTER_OTLP_" + what);
}

Error wrong(const std::string& variable, const std::string& why) {
    return {ErrorCode::usage, variable + " " + why, "see docs/monitoring.md, \"Traces\"; unset it to send none"};
}

bool printable(const std::string& text) {
    return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

// Returns only scheme, host and port of the URL, since its path or query may contain a key, and the text before '@' a
// password.
std::string shown(const std::string& url) {
    const std::size_t host = url.find("://") + 3;
    const std::string authority = url.substr(host, url.find_first_of("/?#", host) - host);
    return url.substr(0, host) + authority.substr(authority.rfind('@') + 1);
}

std::string trimmed(const std::string& text) {
    const auto begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
    return begin == text.npos ? "" : text.substr(begin, end - begin + 1);
}

// Parses "key=value,key=value" with percent-encoded values. No error contains a value.
Result<std::vector<std::pair<std::string, std::string>>> headers_of(const std::string& text) {
    std::vector<std::pair<std::string, std::string>> headers;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string header = trimmed(text.substr(begin, end - begin));
        begin = end + 1;
        if (header.empty()) continue;
        const std::size_t equals = header.find('=');
        const std::string key = equals == header.npos ? "" : trimmed(header.substr(0, equals));
        const auto value = equals == header.npos
                               ? std::nullopt
                               : storage::percent_decoded(trimmed(header.substr(equals + 1)), storage::Plus::literal);
        const bool whole = value && std::ranges::none_of(*value, [](unsigned char c) { return c < ' ' || c == 0x7f; });
        if (key.empty() || !printable(key) || key.find(':') != key.npos || !whole)
            return wrong("OTEL_EXPORTER_OTLP_HEADERS", "is no list of key=value");
        headers.emplace_back(key, *value);
    }
    return headers;
}

}  // namespace

Result<TraceSettings> trace_settings(const Lookup& lookup) {
    TraceSettings settings;
    if (lookup("OTEL_SDK_DISABLED").value_or("") == "true") return settings;
    if (lookup("OTEL_TRACES_EXPORTER").value_or("") == "none") return settings;
    settings.url = lookup("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").value_or("");
    const std::string variable =
        settings.url.empty() ? "OTEL_EXPORTER_OTLP_ENDPOINT" : "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    if (settings.url.empty()) {
        settings.url = lookup(variable).value_or("");
        if (settings.url.empty()) return settings;
        settings.url += settings.url.ends_with('/') ? "v1/traces" : "/v1/traces";
    }
    const bool known = settings.url.starts_with("http://") || settings.url.starts_with("https://");
    if (!known || !printable(settings.url)) return wrong(variable, "is no http:// or https:// address");
    settings.shown = shown(settings.url);
    settings.ca_file = of_traces(lookup, "CERTIFICATE").value_or("");
    auto headers = headers_of(of_traces(lookup, "HEADERS").value_or(""));
    if (!headers) return headers.error();
    settings.headers = std::move(*headers);
    return settings;
}

}  // namespace rtrain::head
