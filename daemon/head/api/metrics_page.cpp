// See metrics_page.hpp.
#include "daemon/head/api/metrics_page.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/events/news.hpp"
#include "daemon/head/loop/slices.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/view/metric_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t xids_most = 32;  // the most kinds of errors (Xid) that are shown for each GPU
constexpr std::array<std::string_view, 2> places = {"data", "scratch"};
constexpr std::size_t users_most = 100;
// the most readers that may wait; each gets megabytes of text
constexpr std::size_t readers_max = 8, readers_max_of_user = 2;

// Converts a number of an agent. Returns nullopt for a value below 0, which an agent sends for "unknown".
std::optional<double> known(std::int64_t value, double units_per_one) {
    if (value < 0) return std::nullopt;
    return static_cast<double>(value) / units_per_one;
}

// Returns the first few entries of `xids`, because a node chooses the numbers, and each becomes a label value.
std::map<std::uint64_t, std::uint64_t> few(const std::map<std::uint64_t, std::uint64_t>& xids) {
    std::map<std::uint64_t, std::uint64_t> shown;
    for (const auto& xid : xids)
        if (shown.size() < xids_most) shown.insert(xid);
    return shown;
}

metrics::LiveGpu live_gpu(const protocol::GpuHeartbeat& gpu, std::size_t index) {
    return {.index = static_cast<std::uint32_t>(index),
            .uuid = gpu.uuid,
            .utilization_ratio = known(gpu.utilization_percent, 100),
            .power_watts = known(gpu.power_mw, 1'000),
            .temperature_celsius = known(gpu.temperature_c, 1),
            .memory_used_bytes = gpu.memory_used,
            .memory_total_bytes = gpu.memory_total,
            .xids = few(gpu.xids),
            .ecc_corrected = known(gpu.ecc_corrected, 1),
            .ecc_uncorrected = known(gpu.ecc_uncorrected, 1),
            .foreign_processes = known(gpu.foreign_processes, 1),
            .foreign_memory_bytes = known(gpu.foreign_memory, 1)};
}

metrics::LiveTraffic live_traffic(const protocol::Traffic& traffic) {
    return {.network_received = known(traffic.network_received, 1),
            .network_sent = known(traffic.network_sent, 1),
            .disk_read = known(traffic.disk_read, 1),
            .disk_written = known(traffic.disk_written, 1)};
}

metrics::LiveNode live_node(const protocol::Heartbeat& heartbeat, const Node& node) {
    metrics::LiveNode shown{.memory_used_bytes = heartbeat.memory_used, .memory_total_bytes = heartbeat.memory_total};
    shown.traffic = live_traffic(heartbeat.traffic);
    for (const protocol::DiskHeartbeat& disk : heartbeat.disks)
        if (shown.disks.size() < places.size() && std::ranges::find(places, disk.place) != places.end())
            shown.disks.push_back({disk.place, disk.size, disk.free});
    for (std::size_t i = 0; i < std::min<std::size_t>(heartbeat.gpus.size(), node.gpus); ++i)
        shown.gpus.push_back(live_gpu(heartbeat.gpus[i], i));
    if (!shown.gpus.empty())
        shown.gpus_seen = static_cast<std::uint32_t>(
            std::ranges::count_if(shown.gpus, [](const auto& gpu) { return gpu.memory_total_bytes > 0; }));
    return shown;
}

// Returns the disk's free and total bytes; nullopt if the file system does not report them.
std::optional<metrics::LiveDisk> disk_of(const std::string& directory) {
    struct statvfs disk{};
    if (::statvfs(directory.c_str(), &disk) != 0) return std::nullopt;
    const auto block = static_cast<std::int64_t>(disk.f_frsize);
    return metrics::LiveDisk{.place = "data",
                             .size_bytes = block * static_cast<std::int64_t>(disk.f_blocks),
                             .free_bytes = block * static_cast<std::int64_t>(disk.f_bavail)};
}

metrics::LiveRun live_run(const state::MetricRow& row) {
    metrics::LiveRun out{.step = row.index, .last_report_wall_ms = row.wall_ms, .values = {}, .skew_ratio = {}};
    const json values = metrics_of(row);
    for (const auto& [key, value] : values.items())
        if (value.is_number()) out.values[key] = value.get<double>();
    return out;
}

std::map<std::string, std::int64_t> by_place(const KeptBytes& bytes) {
    return {{"memory", bytes.memory}, {"database", bytes.database}, {"files", bytes.files}, {"storage", bytes.storage}};
}

// Adds the users with the most stored bytes.
void add_users(metrics::Live& live, const UserBytes& bytes) {
    const auto total = [](const KeptBytes& of) { return of.memory + of.database + of.files; };
    std::vector<std::pair<std::string, KeptBytes>> users;
    for (const auto& [user, account] : bytes.all())
        if (!user.empty()) users.emplace_back(user, account.sum);
    std::ranges::stable_sort(users, [&](const auto& a, const auto& b) { return total(a.second) > total(b.second); });
    if (users.size() > users_most) users.resize(users_most);
    for (const auto& [user, sum] : users)
        live.users.push_back({user, by_place(sum), by_place(bytes.limit_of(user)), bytes.streams_of(user)});
    live.head_disk_reserved = {{"files", bytes.scarce_for_files()}, {"rows", bytes.scarce_for_rows()}};
}

struct Steps {  // the steps that the ranks of one run report
    std::int64_t fastest_ms = 0, slowest_ms = 0;
};

}  // namespace

// The data from which one page is made.
struct MetricsPage::Making {
    Making(const View& seen, const Sessions& agents, std::string directory)
        : view(seen),
          sessions(agents),
          data_dir(std::move(directory)),
          sampling(
              seen.cluster, seen.clock.now(), wall_ms(), [this](RunId run) { take_report(run); }, seen.waits.all()) {}

    const View& view;
    const Sessions& sessions;
    std::string data_dir;
    metrics::Live live;
    std::map<RunId, Steps> steps;
    std::map<RunId, std::shared_ptr<const state::MetricRow>> reports;
    std::optional<NodeId> last_node;
    metrics::Sampling sampling;

    bool step() { return take_node() || sampling.step(); }
    bool take_node();
    void take_worker(const protocol::WorkerHeartbeat& worker);
    void take_report(RunId run) {
        if (auto row = view.reports.last(run)) reports[run] = std::move(row);
    }
    net::Response page(metrics::Metrics& counted);  // makes the text; any thread may call it
};

bool MetricsPage::Making::take_node() {
    const auto& nodes = view.cluster.nodes;
    const auto node = last_node ? nodes.upper_bound(*last_node) : nodes.begin();
    if (node == nodes.end()) return false;
    last_node = node->first;
    const NodeSeen* seen = sessions.seen(node->first.value);
    if (!seen || !seen->connected) return true;
    live.nodes[node->first] = live_node(seen->heartbeat, node->second);
    for (const protocol::WorkerHeartbeat& worker : seen->heartbeat.workers) take_worker(worker);
    return true;
}

void MetricsPage::Making::take_worker(const protocol::WorkerHeartbeat& worker) {
    const Attempt* attempt = find_attempt(view.cluster, worker.attempt);
    if (!attempt) return;
    if (!terminal(attempt->state))
        live.workers.push_back({.attempt = attempt->id,
                                .rank = Rank{worker.rank},
                                .resident_bytes = worker.resident_bytes,
                                .cpu_ms = worker.cpu_ms,
                                .heartbeat_age_seconds = known(worker.heartbeat_age_ms, 1'000),
                                .data_wait_seconds = known(worker.data_wait_ms, 1'000),
                                .barrier_wait_seconds = known(worker.barrier_wait_ms, 1'000),
                                .checkpoint_wait_seconds = known(worker.checkpoint_wait_ms, 1'000),
                                .step_ms = worker.interval_ms,
                                .traffic = live_traffic(worker.traffic)});
    if (worker.interval_ms <= 0) return;
    const auto [at, fresh] = steps.try_emplace(attempt->id.run, Steps{worker.interval_ms, worker.interval_ms});
    at->second.fastest_ms = std::min(at->second.fastest_ms, worker.interval_ms);
    at->second.slowest_ms = std::max(at->second.slowest_ms, worker.interval_ms);
}

net::Response MetricsPage::Making::page(metrics::Metrics& counted) {
    live.head_disk = disk_of(data_dir);
    for (const auto& [run, row] : reports) live.runs[run] = live_run(*row);
    for (const auto& [run, of_run] : steps)
        if (const auto shown = live.runs.find(run); shown != live.runs.end())
            shown->second.skew_ratio = static_cast<double>(of_run.slowest_ms) / static_cast<double>(of_run.fastest_ms);
    return {.status = 200,
            .body = counted.text(sampling.finish(), live),
            .content_type = metrics::Metrics::content_type,
            .headers = {},
            .file = {}};
}

bool MetricsPage::request(Reader reader) {
    const auto of_user =
        std::count_if(waiting_.begin(), waiting_.end(), [&](const Reader& other) { return other.user == reader.user; });
    if (waiting_.size() >= readers_max || static_cast<std::size_t>(of_user) >= readers_max_of_user) return false;
    waiting_.push_back(std::move(reader));
    if (!making_) begin();
    return true;
}

void MetricsPage::begin() {
    making_ = true;
    served_ = std::exchange(waiting_, {});
    const auto making = std::make_shared<Making>(uses_.view, uses_.sessions, uses_.data_dir);
    const net::Loop::LongestTask longest = uses_.loop.longest_task();
    making->live.longest_task_seconds = static_cast<double>(longest.wall_us) / 1e6;
    add_users(making->live, uses_.bytes);
    making->live.longest_task_cpu_seconds = static_cast<double>(longest.cpu_us) / 1e6;
    in_slices(uses_.loop, [this, making] {
        if (making->step()) return true;
        format(making);
        return false;
    });
}

void MetricsPage::format(const std::shared_ptr<Making>& making) {
    thread_.add([this, making] {
        net::Response page;
        try {
            page = making->page(uses_.metrics);
        } catch (const std::exception& wrong) {
            const Error error = net::thrown(wrong, "the page of metrics");
            page = {.status = http_status(error), .body = error_body(error, {})};
        }
        uses_.loop.post([this, page = std::move(page)] { answer(page); });
    });
}

void MetricsPage::answer(const net::Response& page) {
    for (const Reader& reader : std::exchange(served_, {})) reader.responder->send(page);
    making_ = false;
    if (!waiting_.empty()) begin();
}

void get_prometheus(Exchange& exchange, MetricsPage& page) {
    if (!page.request({exchange.caller.user, exchange.responder}))
        refuse(exchange, {ErrorCode::unreachable, "too many wait for /metrics already", "ask again in some seconds"});
}

}  // namespace rtrain::head
