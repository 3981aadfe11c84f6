// An agent's machine with useful defaults: attempts that are prepared or running, and the outputs of a step.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::agent::setup {

inline const AttemptKey attempt_1{17, 1};
// The files that one rank staged for a checkpoint, without their hashes.
inline const std::vector<protocol::StagedFile> one_file{{.rank = 0, .path = "model.pt", .bytes = 10}};
inline const std::vector<protocol::StagedFile> hashed{{.rank = 0, .path = "model.pt", .bytes = 10, .sha256 = "aa"}};

template <class T>
std::vector<T> all(const Outputs& outputs) {
    std::vector<T> matches;
    for (const Output& one : outputs)
        if (const T* here = std::get_if<T>(&one)) matches.push_back(*here);
    return matches;
}
template <class T>
std::vector<T> news(const Outputs& outputs) {
    std::vector<T> matches;
    for (const KeepNews& one : all<KeepNews>(outputs))
        if (const T* here = std::get_if<T>(&one.news.what)) matches.push_back(*here);
    return matches;
}
// Returns the frames of one kind that were sent to workers, as (rank, frame).
template <class T>
std::vector<std::pair<std::uint32_t, T>> to_workers(const Outputs& outputs) {
    std::vector<std::pair<std::uint32_t, T>> matches;
    for (const ToWorker& one : all<ToWorker>(outputs))
        if (const T* here = std::get_if<T>(&one.message)) matches.emplace_back(one.rank, *here);
    return matches;
}

struct Machine {
    AgentState state{.node = "n1", .boot_id = "boot"};
    Time now{1'000};

    Outputs take(Input input) { return step(state, now, input); }
    Outputs head(protocol::FromHead message) { return take(HeadMessage{std::move(message)}); }
    Outputs later(std::int64_t ms) {
        now = now + Duration{ms};
        return take(TimerFired{});
    }
    void connect() {
        take(HeadConnected{});
        head(protocol::Welcome{.cluster_id = "c0ffee"});
    }
};

struct Shape {
    std::vector<std::vector<std::uint32_t>> nodes{{0, 1}};  // the ranks of each node; this node is n1
    std::uint32_t here = 0;                                 // the index of this node
    UploadMode upload = UploadMode::async;
    AttemptPolicy policy{};
};

inline protocol::Prepare prepare_order(const Shape& shape) {
    protocol::Prepare order{.attempt = {17, 1, 1}, .cluster_id = "c0ffee", .run_id = "c0ffee-17", .run_name = "digits"};
    for (std::uint32_t i = 0; i < shape.nodes.size(); ++i) {
        order.nodes.push_back(
            {.node = "n" + std::to_string(1 + (i + shape.nodes.size() - shape.here) % shape.nodes.size()),
             .address = "10.0.0.1",
             .port = 7434,
             .ranks = shape.nodes[i]});
        order.world_size += static_cast<std::uint32_t>(shape.nodes[i].size());
    }
    order.claim = shape.here == 0;
    return order;
}

inline protocol::Launch launch_order(const Shape& shape) {
    protocol::Launch order{
        .attempt = {17, 1, 1}, .master_address = "10.0.0.1", .master_port = 20'000, .node_rank = shape.here};
    for (std::uint32_t i = 0; i < shape.nodes[shape.here].size(); ++i)
        order.workers.push_back({.rank = shape.nodes[shape.here][i], .local_rank = i, .cpu_ticks = 10'000});
    return order;
}

// Returns a machine with an attempt whose workers run and have connected.
inline Machine running(const Shape& shape = {}) {
    Machine machine;
    machine.connect();
    machine.head(prepare_order(shape));
    machine.take(PreparationDone{.attempt = attempt_1,
                                 .number = 1,
                                 .upload = shape.upload,
                                 .local_run_path = "/runs/digits",
                                 .policy = shape.policy});
    machine.head(launch_order(shape));
    machine.take(CheckpointFetched{attempt_1, ""});
    for (const std::uint32_t rank : shape.nodes[shape.here]) {
        machine.take(WorkerStarted_{attempt_1, rank, 100 + rank});
        machine.take(WorkerJoined{attempt_1, rank, {.attempt = "c0ffee-17-a1", .rank = rank}});
    }
    return machine;
}

inline WorkerMessage report(std::uint32_t rank, std::uint64_t index, std::string metrics = "{}") {
    return {attempt_1, rank, worker::Report{.index = index, .metrics_json = std::move(metrics)}};
}
inline WorkerMessage report_with_files(std::uint32_t rank, std::uint64_t index, std::string name = {}) {
    return {attempt_1, rank,
            worker::Report{.index = index,
                           .metrics_json = "{\"loss\":1}",
                           .checkpoint = worker::StagedFiles{.path = "/stage/" + std::to_string(rank),
                                                             .directory_name = std::move(name)}}};
}

// A directory that goes with the test.
}  // namespace rtrain::agent::setup
