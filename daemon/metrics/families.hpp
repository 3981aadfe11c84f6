// The samples of one scrape, grouped by name, and their text in Prometheus' format 0.0.4.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/metrics/histogram.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/metrics/names.hpp"

namespace rtrain::metrics {

struct Label {
    std::string name, value;
};
using SampleLabels = std::vector<Label>;

class Families {
  public:
    void add(std::string_view name, const SampleLabels& labels, double value);  // for a counter or a gauge
    void add(std::string_view name, const SampleLabels& labels, const HistogramCounts& histogram);
    std::string text() &&;  // in the order of the table

  private:
    std::string& samples(const Description& known) { return samples_[known.name]; }
    std::map<std::string_view, std::string> samples_;  // key: the name; value: the lines below its help and type
};

// Adds the known traffic to the counters "<of>_network_receive_bytes_total" and so on.
void add_traffic(Families& families, const std::string& of, const SampleLabels& labels, const LiveTraffic& traffic);
void add_disk(Families& families, const std::string& of, SampleLabels labels, const LiveDisk& disk);

void add_cluster_samples(Families& families, const Records& records);
void add_run_samples(Families& families, const Records& records, const Live& live);
void add_node_samples(Families& families, const Records& records, const Live& live);

}  // namespace rtrain::metrics
