// The table of all metrics, in the order in which they are exported.
#include "daemon/metrics/names.hpp"

#include <array>
#include <string>
#include <unordered_map>

#include "base/result.hpp"

namespace rtrain::metrics {
namespace {

constexpr std::array table = {
    // head
    Description{"build_info", Kind::gauge, "Always 1; the version is a label."},
    Description{"nodes", Kind::gauge, "Nodes by state."},
    Description{"gpus", Kind::gauge, "GPUs of nodes that are not lost: allocated (with fractions) or free."},
    Description{"runs", Kind::gauge, "Runs that have not ended, by state; ended ones stay for 15 minutes."},
    Description{"queue_length", Kind::gauge, "Runs that wait for room, by queue."},
    Description{"budget_gpu_hours", Kind::gauge, "Budget of GPU hours, by queue and user (empty: the whole queue)."},
    Description{"budget_used_gpu_hours", Kind::gauge, "GPU hours used of the budget within its window."},
    Description{"autoscale_commands_total", Kind::counter,
                "Commands of the autoscaler that have ended, by action (provision, release) and result; join: ordered "
                "nodes that did not come."},
    Description{"queue_wait_seconds", Kind::histogram, "Time from submission to the first placement."},
    Description{"scheduling_duration_seconds", Kind::histogram, "Time of one decision of the core."},
    Description{"decision_latency_seconds", Kind::histogram,
                "Time from an event's coming to its decision, with its wait behind others and without its commit."},
    Description{"loop_stall_seconds", Kind::gauge,
                "Longest turn of the head's loop in the last one to two minutes: clock=wall, or clock=cpu."},
    Description{"log_commit_duration_seconds", Kind::histogram, "Time until a transaction of the state is on disk."},
    Description{"head_disk_size_bytes", Kind::gauge, "Size of the file system of the head's data directory."},
    Description{"head_disk_free_bytes", Kind::gauge, "Free there."},
    Description{"head_disk_reserved", Kind::gauge,
                "1 while users' files (what=files) or rows (what=rows) are refused: only the reserve is free."},
    Description{"user_kept_bytes", Kind::gauge,
                "What the head keeps for a user, by place; the 100 users with the most."},
    Description{"user_limit_bytes", Kind::gauge, "How much it may keep."},
    Description{"user_streams", Kind::gauge, "Open streams of a user: followed events, logs and metrics."},
    Description{"http_request_duration_seconds", Kind::histogram, "Time to answer a request, by route."},
    Description{"trace_spans_total", Kind::counter, "Spans of traces, by outcome: sent, or dropped."},
    // run
    Description{"run_info", Kind::gauge, "Always 1; joins run_id with the run's name, user and queue."},
    Description{"run_state", Kind::gauge, "1 for the state the run is in, 0 for the others."},
    Description{"run_step", Kind::gauge, "Reports of the present attempt."},
    Description{"run_last_report_timestamp_seconds", Kind::gauge, "Unix time of the last report."},
    Description{"run_attempts_total", Kind::counter, "Attempts so far."},
    Description{"run_failures_total", Kind::counter, "Attempts that failed or were lost, by reason."},
    Description{"run_goodput_ratio", Kind::gauge, "Productive share of the time since the first placement."},
    Description{"run_lost_seconds_total", Kind::counter,
                "Time that was not productive, by its cause (docs/goodput.md); queue, detect, schedule, start, ..."},
    Description{"run_metric", Kind::gauge, "Last reported value, by key; at most 20 keys of a run."},
    Description{"run_warnings_total", Kind::counter, "Warnings about a run, by reason."},
    Description{"run_workers", Kind::gauge, "Workers of a run that live."},
    Description{"run_resident_memory_bytes", Kind::gauge, "Resident memory of all workers of a run."},
    Description{"run_cpu_seconds_total", Kind::counter, "CPU time of all workers of a run."},
    Description{"run_network_receive_bytes_total", Kind::counter, "Received by all workers of a run over TCP."},
    Description{"run_network_transmit_bytes_total", Kind::counter, "Sent by all workers of a run over TCP."},
    Description{"run_disk_read_bytes_total", Kind::counter, "Read from storage by all workers of a run."},
    Description{"run_disk_written_bytes_total", Kind::counter, "Written to storage by all workers of a run."},
    // worker
    Description{"worker_report_interval_seconds", Kind::histogram, "Time between two reports of a worker."},
    Description{"worker_skew_ratio", Kind::gauge, "Slowest rank's time between reports over the fastest's."},
    Description{"worker_data_wait_seconds_total", Kind::counter, "Time in which a worker waited for its data."},
    Description{"worker_barrier_wait_seconds_total", Kind::counter,
                "Time in which a worker waited for other ranks, in reports and collectives."},
    Description{"worker_checkpoint_wait_seconds_total", Kind::counter,
                "Time of a worker in reports with a checkpoint."},
    Description{"worker_heartbeat_age_seconds", Kind::gauge, "Time since a worker last gave a sign of life."},
    Description{"worker_resident_memory_bytes", Kind::gauge, "Resident memory of a worker."},
    Description{"worker_cpu_seconds_total", Kind::counter, "CPU time of a worker."},
    Description{"worker_network_receive_bytes_total", Kind::counter, "Received by a worker's processes over TCP."},
    Description{"worker_network_transmit_bytes_total", Kind::counter, "Sent by a worker's processes over TCP."},
    Description{"worker_disk_read_bytes_total", Kind::counter, "Read from storage by a worker's processes."},
    Description{"worker_disk_written_bytes_total", Kind::counter, "Written to storage by a worker's processes."},
    // checkpoint
    Description{"checkpoint_save_duration_seconds", Kind::histogram, "Time from a report to its checkpoint's commit."},
    Description{"checkpoint_blocked_seconds_total", Kind::counter, "Time in which report() waited for checkpoints."},
    Description{"checkpoint_bytes", Kind::gauge, "Size of the newest committed checkpoint."},
    Description{"checkpoint_last_success_timestamp_seconds", Kind::gauge, "Unix time of the newest commit."},
    Description{"checkpoint_failures_total", Kind::counter, "Checkpoints that were not committed, by reason."},
    // node
    Description{"gpu_utilization_ratio", Kind::gauge, "Share of time in which a kernel ran."},
    Description{"gpu_memory_used_bytes", Kind::gauge, "Memory in use on a GPU."},
    Description{"gpu_memory_total_bytes", Kind::gauge, "Memory of a GPU."},
    Description{"gpu_power_watts", Kind::gauge, "Power drawn by a GPU."},
    Description{"gpu_temperature_celsius", Kind::gauge, "Temperature of a GPU."},
    Description{"gpu_xid_events_total", Kind::counter, "Xid errors since the agent's start, by number."},
    Description{"gpu_ecc_errors_total", Kind::counter,
                "Memory errors since the driver was loaded: kind=corrected, or kind=uncorrected."},
    Description{"gpu_foreign_processes", Kind::gauge, "Processes that compute on a GPU and belong to no run."},
    Description{"gpu_foreign_memory_bytes", Kind::gauge, "Memory of a GPU that these hold."},
    Description{"node_up", Kind::gauge, "1 while the node's agent is connected and the node is not lost, else 0."},
    Description{"node_gpus_expected", Kind::gauge, "GPUs that the node registered with."},
    Description{"node_gpus_seen", Kind::gauge, "GPUs that answer now."},
    Description{"gpu_allocation_info", Kind::gauge, "Always 1; which rank holds a share of which GPU."},
    Description{"memory_used_bytes", Kind::gauge, "Memory in use on a node."},
    Description{"memory_total_bytes", Kind::gauge, "Memory of a node."},
    Description{"node_network_receive_bytes_total", Kind::counter, "Received by a node's network interfaces."},
    Description{"node_network_transmit_bytes_total", Kind::counter, "Sent by a node's network interfaces."},
    Description{"node_disk_read_bytes_total", Kind::counter, "Read from a node's disks."},
    Description{"node_disk_written_bytes_total", Kind::counter, "Written to a node's disks."},
    Description{"node_disk_size_bytes", Kind::gauge, "Size of the file system of an agent's directory, by place."},
    Description{"node_disk_free_bytes", Kind::gauge, "Free there."},
};

}  // namespace

std::span<const Description> descriptions() { return table; }

std::size_t row_of(std::string_view name) {
    static const std::unordered_map<std::string_view, std::size_t> rows = [] {
        std::unordered_map<std::string_view, std::size_t> row_by_name;
        for (std::size_t row = 0; row < table.size(); ++row) row_by_name[table[row].name] = row;
        return row_by_name;
    }();
    const auto row = rows.find(name);
    RTRAIN_CHECK(row != rows.end(), "a metric without a description: " + std::string(name));
    return row->second;
}

}  // namespace rtrain::metrics
