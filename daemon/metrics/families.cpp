// Samples to text. Prometheus' documentation, "Exposition formats", has the rules: one family after the other, its help
// and type first; a backslash before `\`, line ends, and (in values of labels) quotes.
#include "daemon/metrics/families.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/result.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::string_view prefix = "rtrain_";

std::string_view type_of(Kind kind) {
    switch (kind) {
        case Kind::counter:
            return "counter";
        case Kind::gauge:
            return "gauge";
        case Kind::histogram:
            return "histogram";
    }
    return "untyped";
}

// Returns the shortest digits that read back as the same number; whole numbers without an exponent.
std::string number_text(double value) {
    constexpr double exact_most = 9007199254740992.0;  // 2^53
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    char text[32];
    const bool whole = std::trunc(value) == value && std::fabs(value) <= exact_most;
    const auto end = whole ? std::to_chars(text, text + sizeof text, static_cast<std::int64_t>(value))
                           : std::to_chars(text, text + sizeof text, value);
    return {text, end.ptr};
}

void append_escaped(std::string& to, std::string_view text, bool quotes) {
    for (const char character : text) {
        if (character == '\n') {
            to += "\\n";
            continue;
        }
        if (character == '\\' || (quotes && character == '"')) to += '\\';
        to += character;
    }
}

// Writes one line: the name with its ending, the labels, one more label (`le`) if it has a value, the number.
struct Line {
    std::string_view name, ending;
    const SampleLabels& labels;
    std::string_view bound;
    std::string number;
};
void append_line(std::string& to, const Line& line) {
    to.append(prefix).append(line.name).append(line.ending);
    char before = '{';
    const auto append_label = [&](std::string_view name, std::string_view value) {
        (to += before).append(name) += "=\"";
        append_escaped(to, value, true);
        to += '"';
        before = ',';
    };
    for (const Label& label : line.labels) append_label(label.name, label.value);
    if (!line.bound.empty()) append_label("le", line.bound);
    if (before == ',') to += '}';
    ((to += ' ') += line.number) += '\n';
}

}  // namespace

void Families::add(std::string_view name, const SampleLabels& labels, double value) {
    const Description& known = description(name);
    RTRAIN_CHECK(known.kind != Kind::histogram, std::string(name));
    append_line(samples(known), {known.name, "", labels, "", number_text(value)});
}

void Families::add(std::string_view name, const SampleLabels& labels, const HistogramCounts& histogram) {
    const Description& known = description(name);
    RTRAIN_CHECK(known.kind == Kind::histogram, std::string(name));
    std::string& to = samples(known);
    const std::string all = std::to_string(histogram.at_most.back());
    append_line(to, {known.name, "_count", labels, "", all});
    append_line(to, {known.name, "_sum", labels, "", number_text(histogram.sum)});
    for (std::size_t at = 0; at < histogram.bounds.size(); ++at)
        append_line(to, {known.name, "_bucket", labels, number_text(histogram.bounds[at]),
                         std::to_string(histogram.at_most[at])});
    append_line(to, {known.name, "_bucket", labels, "+Inf", all});
}

std::string Families::text() && {
    std::string out;
    for (const Description& known : descriptions()) {
        const auto entry = samples_.find(known.name);
        if (entry == samples_.end()) continue;
        out.append("# HELP ").append(prefix).append(known.name) += ' ';
        append_escaped(out, known.help, false);
        (out += "\n# TYPE ").append(prefix).append(known.name) += ' ';
        out.append(type_of(known.kind)) += '\n';
        out += entry->second;
    }
    return out;
}

}  // namespace rtrain::metrics
