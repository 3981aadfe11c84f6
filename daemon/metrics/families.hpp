// Samples of one scrape, gathered by name. Included by this folder's .cpp files only: it brings prometheus-cpp along.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/metrics/metrics.hpp"
#include "daemon/metrics/names.hpp"

namespace rtrain::metrics {

using SampleLabels = std::vector<prometheus::ClientMetric::Label>;

class Families {
  public:
    void add(std::string_view name, SampleLabels labels, double value);  // a counter or a gauge
    void add(std::string_view name, SampleLabels labels, const prometheus::ClientMetric& histogram);
    std::string text() &&;  // in the table's order

  private:
    prometheus::MetricFamily& family(std::string_view name);
    std::map<std::string_view, prometheus::MetricFamily> families_;
};

void add_cluster_samples(Families& families, const Records& records);
void add_run_samples(Families& families, const Records& records, const Live& live);
void add_node_samples(Families& families, const Records& records, const Live& live);

}  // namespace rtrain::metrics
