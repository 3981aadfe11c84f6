// The destination of traces: OpenTelemetry's variables, and values that no message may show.
#include "daemon/head/traces/settings.hpp"

#include <map>

#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::head;

namespace {

Result<TraceSettings> of(const std::map<std::string, std::string>& variables) {
    return trace_settings([&](const std::string& name) {
        const auto entry = variables.find(name);
        return entry == variables.end() ? std::nullopt : std::optional<std::string>(entry->second);
    });
}

}  // namespace

TEST_CASE("traces go where OpenTelemetry's variables say, and nowhere without them") {
    CHECK(of({}).value().url.empty());
    CHECK(of({{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}}).value().url.empty());
    CHECK(of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}}).value().url == "http://c:4318/v1/traces");
    CHECK(of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/otlp/"}}).value().url == "https://c/otlp/v1/traces");
    CHECK(of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x"}})
              .value()
              .url == "http://t/x");
    CHECK(of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {"OTEL_SDK_DISABLED", "true"}}).value().url.empty());
    CHECK(of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {"OTEL_TRACES_EXPORTER", "none"}}).value().url.empty());
    CHECK(
        of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca"}}).value().ca_file ==
        "/ca");
}

TEST_CASE("headers are a list of keys and percent-encoded values; a name of their own comes before the common one") {
    const std::map<std::string, std::string> both = {
        {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"},
        {"OTEL_EXPORTER_OTLP_HEADERS", "x=1"},
        {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20a%3Db, y = 2 ,"}};
    CHECK(of(both).value().headers ==
          std::vector<std::pair<std::string, std::string>>{{"authorization", "Bearer a=b"}, {"y", "2"}});
    for (const char* bad : {"no-value", "=x", "a b=c", "a=%0d%0aevil: 1", "a=%zz", "a:=1"}) {
        const auto refused = of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {"OTEL_EXPORTER_OTLP_HEADERS", bad}});
        CAPTURE(bad);
        REQUIRE(!refused);
        CHECK(refused.error().code == ErrorCode::usage);
        CHECK(refused.error().message.find("evil") == std::string::npos);
    }
}

TEST_CASE("no message shows what an address hides") {
    const std::string url = "https://user:secret@c.example:4318/key-in-path?key=secret";
    CHECK(of({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url}}).value().shown == "https://c.example:4318");
    CHECK(of({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c?k=a@b"}}).value().shown == "http://c");
    for (const char* bad : {"c:4318", "grpc://c", "http://c\r\nx: y", "file:///etc/passwd"})
        CHECK(!of({{"OTEL_EXPORTER_OTLP_ENDPOINT", bad}}));
}
