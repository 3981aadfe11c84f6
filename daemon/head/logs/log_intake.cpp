// See log_intake.hpp.
#include "daemon/head/logs/log_intake.hpp"

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include "daemon/head/base/clock.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t put_off_ms = 2'000;
constexpr std::int64_t sync_pause_ms = 200;
// The most bytes that may wait to be written. Further log pieces stay on their nodes.
constexpr std::size_t waiting_bytes_max = 64 << 20;

protocol::LogAck ack_of(const LogName& name, const LogIntake::Source& from, std::uint64_t offset) {
    return {.attempt = from.attempt, .rank = name.rank, .stream = name.stream, .offset = offset};
}

}  // namespace

LogIntake::LogIntake(Uses uses)
    : uses_(std::move(uses)),
      store_(uses_.options.data_dir + "/logs", static_cast<std::uint64_t>(uses_.options.logs_reserve),
             uses_.options.free_bytes ? uses_.options.free_bytes : free_bytes) {}

void LogIntake::on_log_thread(std::function<void()> work, net::Loop::Task then) {
    writer_.add([this, work = std::move(work), then = std::move(then)]() mutable {
        try {
            work();
        } catch (const std::exception& wrong) {
            std::fprintf(stderr, "rtrain head: %s\n", net::thrown(wrong, "a log file").message.c_str());
        }
        work = nullptr;
        uses_.background.post(std::move(then));
    });
}

void LogIntake::take(LogStore::Piece piece, const Source& from) {
    const std::size_t bytes = piece.bytes.size();
    if (waiting_bytes_ + bytes > waiting_bytes_max)
        return put_off(piece.name, from,
                       {ErrorCode::full, "the disk of the head's data directory is slower than what comes", ""});
    const RunId run = piece.name.run;
    if (const Status may = uses_.bytes.may_add(run, Kept::logs, {.files = static_cast<std::int64_t>(bytes)}); !may) {
        note_limit(run, may.error());
        return put_off(piece.name, from, may.error());
    }
    waiting_bytes_ += bytes;
    const auto kept = std::make_shared<const LogStore::Piece>(std::move(piece));
    const auto size = std::make_shared<Result<std::uint64_t>>(Error{ErrorCode::internal, "it was not written", ""});
    const auto sizes = std::make_shared<std::map<RunId, std::uint64_t>>();
    on_log_thread(
        [this, kept, size, sizes] {
            *size = store_.take(*kept);
            *sizes = store_.changed_sizes();
        },
        [this, kept, from, size, sizes, bytes] {
            waiting_bytes_ -= bytes;
            for (const auto& [changed, stored] : *sizes)
                uses_.bytes.put(changed, Kept::logs, {.files = static_cast<std::int64_t>(stored)});
            taken(kept->name, from, *size);
        });
}

void LogIntake::let_go(const LogName& name, const Source& from, std::uint64_t end) { taken(name, from, end); }

void LogIntake::forget(RunId run) {
    limit_noted_.erase(run);
    on_log_thread([this, run] { store_.forget(run); }, [] {});
}

void LogIntake::taken(const LogName& name, const Source& from, const Result<std::uint64_t>& size) {
    if (!size) return put_off(name, from, size.error());
    unsynced_[name] = {.from = from, .offset = *size};
    later_sync();
    uses_.feeds.poke();
}

// Refuses a piece for now. It is not acknowledged, so the agent keeps it and sends it again on request.
void LogIntake::put_off(const LogName& name, const Source& from, const Error& why) {
    if (why.code == ErrorCode::invalid) {  // the error is permanent, so the piece is not requested again
        std::fprintf(stderr, "rtrain head: log of %s: %s\n", from.node.c_str(), why.message.c_str());
        return;
    }
    if (put_off_.empty()) {
        std::fprintf(stderr, "rtrain head: log of %s: %s\n", from.node.c_str(), why.message.c_str());
        uses_.background.after(put_off_ms, [this] { offer_again(); });
    }
    put_off_[name] = from;
    note_room();
    protocol::LogAck later = ack_of(name, from, 0);
    later.later = true;
    uses_.send(from.node, later);
}

void LogIntake::offer_again() {
    const auto wait = std::make_shared<bool>(true);
    on_log_thread([this, wait] { *wait = store_.waits_for_room(); },
                  [this, wait] {
                      note_room();
                      if (*wait) {
                          uses_.background.after(put_off_ms, [this] { offer_again(); });
                          return;
                      }
                      for (const auto& [name, from] : std::exchange(put_off_, {}))
                          uses_.send(from.node, ack_of(name, from, 0));
                  });
}

// Adds a notice that the run's logs stay on their nodes, once for each run. Near the limit, small pieces may be
// accepted while large ones are not.
void LogIntake::note_limit(RunId run, const Error& why) {
    if (!limit_noted_.insert(run).second) return;
    uses_.events.note({.wall_ms = wall_ms(),
                       .text = "the logs of this run stay on their nodes: " + why.message + "; " + why.next,
                       .about_run = run,
                       .about_node = std::nullopt});
    uses_.events.later_acknowledge();
}

// Adds a notice once when the disk has no space for logs, and once when it has space again.
void LogIntake::note_room() {
    const bool wait = store_.waiting();
    if (std::exchange(room_noted_, wait) == wait) return;
    const std::string disk = "the disk of the head's data directory (" + uses_.options.data_dir + ")";
    const std::string text = wait ? disk +
                                        " is nearly full: workers' logs stay on their nodes until there is room; "
                                        "make some, for example: rtrain runs rm of old runs"
                                  : disk + " has room again: the logs that waited on their nodes are taken";
    uses_.events.note({.wall_ms = wall_ms(), .text = text, .about_run = std::nullopt, .about_node = std::nullopt});
    uses_.events.later_acknowledge();
}

void LogIntake::later_sync() {
    if (std::exchange(syncing_, true)) return;
    uses_.background.after(sync_pause_ms, [this] { sync(); });
}

void LogIntake::sync() {
    auto batch = std::make_shared<Batch>(std::exchange(unsynced_, {}));
    uses_.background.offload([directory = store_.directory()] { return sync_logs(directory); },
                             [](const Error& error) { return error; },
                             [this, batch](const Status& status) { synced(*batch, status); });
}

void LogIntake::synced(const Batch& batch, const Status& status) {
    syncing_ = false;
    if (!status) {
        std::fprintf(stderr, "rtrain head: logs: %s\n", status.error().message.c_str());
        unsynced_.insert(batch.begin(), batch.end());
    } else {
        for (const auto& [name, written] : batch)
            uses_.send(written.from.node, ack_of(name, written.from, written.offset));
    }
    if (!unsynced_.empty()) later_sync();
}

}  // namespace rtrain::head
