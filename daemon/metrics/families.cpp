// See families.hpp.
#include "daemon/metrics/families.hpp"

#include <utility>

#include "base/result.hpp"

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

prometheus::MetricFamily& Families::of(std::string_view name) {
    const std::size_t row = row_of(name);
    const auto [family, fresh] = families_.try_emplace(row);
    if (fresh) {
        const Description& known = descriptions()[row];
        family->second.name = "rtrain_" + std::string(known.name);
        family->second.help = known.help;
        family->second.type = type_of(known.kind);
    }
    return family->second;
}

void add_sample(prometheus::MetricFamily& family, SampleLabels labels, double value) {
    RTRAIN_CHECK(family.type != prometheus::MetricType::Histogram, family.name);
    prometheus::ClientMetric& sample = family.metric.emplace_back();
    sample.label = std::move(labels);
    (family.type == prometheus::MetricType::Counter ? sample.counter.value : sample.gauge.value) = value;
}

void Families::add(std::string_view name, SampleLabels labels, double value) {
    add_sample(of(name), std::move(labels), value);
}

void Families::add(std::string_view name, SampleLabels labels, const HistogramCounts& histogram) {
    prometheus::MetricFamily& family = of(name);
    RTRAIN_CHECK(family.type == prometheus::MetricType::Histogram, family.name);
    prometheus::ClientMetric& sample = family.metric.emplace_back();
    sample.label = std::move(labels);
    sample.histogram.sample_count = histogram.at_most.back();
    sample.histogram.sample_sum = histogram.sum;
    for (std::size_t at = 0; at < histogram.bounds.size(); ++at)
        sample.histogram.bucket.push_back(
            {.cumulative_count = histogram.at_most[at], .upper_bound = histogram.bounds[at]});
}

std::vector<prometheus::MetricFamily> Families::take() && {
    std::vector<prometheus::MetricFamily> all;
    for (auto& [row, family] : families_)
        if (!family.metric.empty()) all.push_back(std::move(family));
    return all;
}

}  // namespace rtrain::metrics
