// A small head without network for the tests of the journal: it decides, commits, and keeps a copy of every state.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "scheduler/controller.hpp"
#include "storage/state/journal.hpp"
#include "tests/unit/catch.hpp"

namespace rtrain::state {

// A directory below /dev/shm where that exists: thousands of databases are made, and none needs a disk.
class ScratchDirectory {
  public:
    ScratchDirectory() {
        std::filesystem::path base =
            std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
        std::string pattern = (base / "rtrain-state-XXXXXX").string();
        path_ = mkdtemp(pattern.data());
    }
    ~ScratchDirectory() { std::filesystem::remove_all(path_); }
    ScratchDirectory(const ScratchDirectory&) = delete;
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
}
inline void write_bytes(const std::string& path, std::string_view bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class Story {
  public:
    explicit Story(const std::string& directory) : directory_(directory) { open(); }

    void open() {
        Result<std::unique_ptr<SqliteJournal>> opened = SqliteJournal::open(directory_);
        if (!opened) FAIL(opened.error().message);
        journal = std::move(*opened);
        cluster = journal->opened();
    }
    Entry decided(const Event& event) {
        now_ms += 1'000;
        Decision decision = decide(cluster, Time{now_ms}, event);
        REQUIRE_FALSE(decision.refused);
        return {.now = Time{now_ms},
                .wall_ms = now_ms,
                .event = event,
                .records = decision.save,
                .note = decision.note,
                .about_run = decision.about_run,
                .about_node = decision.about_node};
    }
    void happen(const std::vector<Event>& events) {  // Commits the events in one transaction.
        std::vector<Entry> entries;
        for (const Event& event : events) entries.push_back(decided(event));
        Status committed = journal->commit(entries);
        if (!committed) FAIL(committed.error().message);
    }

    std::unique_ptr<SqliteJournal> journal;
    Cluster cluster;
    std::int64_t now_ms = 1'000'000;

  private:
    std::string directory_;
};

inline Event node_joins(const std::string& name) {
    return NodeRegistered{.node = {name},
                          .address = "10.0.0.1",
                          .port = 7434,
                          .labels = {{"zone", "a"}},
                          .total = {{"CPU", units(8)}},
                          .gpus = 2,
                          .held = {}};
}
inline Event run_is_submitted(const std::string& name) {
    RunSubmitted submitted;
    submitted.name = name;
    submitted.user = "ana";
    submitted.submit_key = "key-" + name;
    submitted.job_json = R"({"entrypoint":"python train.py"})";
    submitted.storage_path = "/mnt/runs";
    submitted.spec.gang.bundles = {Bundle{.demand = {{"CPU", units(1)}}, .selector = {}}};
    submitted.spec.failure.max_failures = 3;
    return submitted;
}
inline AttemptId attempt(std::uint64_t run, std::uint32_t number) { return {.run = {run}, .number = number}; }

// Two nodes and three runs: one has started and failed once, one is removed again.
inline std::vector<std::vector<Event>> small_history() {
    NodePrepared prepared{.attempt = attempt(1, 1),
                          .incarnation = 1,
                          .node = {"n1"},
                          .claimed_number = 1,
                          .from = "",
                          .master_address = "10.0.0.1",
                          .master_port = 20'000};
    ExitCause killed;
    killed.signal = 9;
    killed.detail = "61.8 of 62 GiB \xff";
    return {{HeadStarted{.wall_ms = 1}},
            {node_joins("n1"), node_joins("n2")},
            {run_is_submitted("first")},
            {prepared},
            {WorkerStarted{.attempt = attempt(1, 1), .rank = {0}, .pid = 77}, FirstReport{.attempt = attempt(1, 1)}},
            {run_is_submitted("second")},
            {WorkerExited{.attempt = attempt(1, 1), .rank = {0}, .cause = killed, .exit_wall_us = 5}},
            {RunStopAsked{.run = {2}, .by = "ana", .wall_ms = 9}, run_is_submitted("third")},
            {NodeDrained{.node = {"n2"}, .by = "ana", .reason = "kernel"}, NodeLost{.node = {"n1"}, .why = "silent"}}};
}

}  // namespace rtrain::state
