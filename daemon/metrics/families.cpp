// Samples to text, by prometheus-cpp's serializer.
#include "daemon/metrics/families.hpp"

#include <prometheus/text_serializer.h>

#include <sstream>

#include "scheduler/model/result.hpp"

namespace rtrain::metrics {
namespace {

prometheus::MetricType type_of(Kind kind) {
    switch (kind) {
        case Kind::counter:
            return prometheus::MetricType::Counter;
        case Kind::gauge:
            return prometheus::MetricType::Gauge;
        case Kind::histogram:
            return prometheus::MetricType::Histogram;
    }
    return prometheus::MetricType::Untyped;
}

}  // namespace

prometheus::MetricFamily& Families::family(std::string_view name) {
    const Description& known = description(name);
    prometheus::MetricFamily& family = families_[known.name];
    if (family.name.empty()) {
        family.name = "rtrain_" + std::string(known.name);
        family.help = std::string(known.help);
        family.type = type_of(known.kind);
    }
    return family;
}

void Families::add(std::string_view name, SampleLabels labels, double value) {
    prometheus::MetricFamily& into = family(name);
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    if (into.type == prometheus::MetricType::Counter)
        metric.counter.value = value;
    else
        metric.gauge.value = value;
    into.metric.push_back(std::move(metric));
}

void Families::add(std::string_view name, SampleLabels labels, const prometheus::ClientMetric& histogram) {
    prometheus::MetricFamily& into = family(name);
    RTRAIN_CHECK(into.type == prometheus::MetricType::Histogram, std::string(name));
    prometheus::ClientMetric metric = histogram;
    metric.label = std::move(labels);
    into.metric.push_back(std::move(metric));
}

std::string Families::text() && {
    std::vector<prometheus::MetricFamily> ordered;
    for (const Description& known : descriptions())
        if (auto found = families_.find(known.name); found != families_.end())
            ordered.push_back(std::move(found->second));
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, ordered);
    return out.str();
}

}  // namespace rtrain::metrics
