// The samples of one scrape, grouped by name: the metric families of prometheus-cpp.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/metrics/histogram.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/metrics/names.hpp"

namespace rtrain::metrics {

using SampleLabels = std::vector<prometheus::ClientMetric::Label>;

class Families {
  public:
    void add(std::string_view name, SampleLabels labels, double value);  // for a counter or a gauge
    void add(std::string_view name, SampleLabels labels, const HistogramCounts& histogram);
    prometheus::MetricFamily& of(std::string_view name);
    std::vector<prometheus::MetricFamily> take() &&;  // with samples, in the order of the table

  private:
    std::map<std::size_t, prometheus::MetricFamily> families_;  // key: the row of the table
};
void add_sample(prometheus::MetricFamily& family, SampleLabels labels, double value);  // for a counter or a gauge

// A part of a scrape with families of its own. It holds few families, so that the samples of a large cluster are not in
// memory at the same time.
class Part : public prometheus::Collectable {
  public:
    using Add = std::function<void(Families&)>;
    explicit Part(Add add) : add_(std::move(add)) {}
    std::vector<prometheus::MetricFamily> Collect() const override {
        Families families;
        add_(families);
        return std::move(families).take();
    }

  private:
    Add add_;
};

// Adds the known traffic to the counters "<of>_network_receive_bytes_total" and so on.
void add_traffic(Families& families, const std::string& of, const SampleLabels& labels, const LiveTraffic& traffic);
void add_disk(Families& families, const std::string& of, SampleLabels labels, const LiveDisk& disk);

void add_cluster_samples(Families& families, const Records& records);
void add_run_samples(Families& families, const Records& records, const Live& live);
void add_node_samples(Families& families, const Records& records, const Live& live);
void add_allocations(Families& families, const Records& records, const Live& live);
// The parts refer to `live`, and have one family each.
std::vector<Part> worker_parts(const Records& records, const Live& live);
std::vector<Part> gpu_parts(const Records& records, const Live& live);

}  // namespace rtrain::metrics
