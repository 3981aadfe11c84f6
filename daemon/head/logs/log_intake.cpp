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
constexpr std::size_t waiting_bytes_max = 64 << 20;  // wait for their files; more stays on its node

protocol::LogAck ack_of(const LogName& name, const LogIntake::Source& from, std::uint64_t offset) {
    return {.attempt = from.attempt, .rank = name.rank, .stream = name.stream, .offset = offset};
}

}  // namespace

LogIntake::LogIntake(net::Background background, Intake events, Feeds& feeds, const HeadOptions& options, Send send)
    : background_(background),
      events_(events),
      feeds_(feeds),
      options_(options),
      send_(std::move(send)),
      store_(options.data_dir + "/logs", static_cast<std::uint64_t>(options.logs_reserve),
             options.free_bytes ? options.free_bytes : free_bytes) {}

void LogIntake::on_log_thread(std::function<void()> work, net::Loop::Task then) {
    writer_.add([this, work = std::move(work), then = std::move(then)]() mutable {
        try {
            work();
        } catch (const std::exception& wrong) {
            std::fprintf(stderr, "rtrain head: %s\n", net::thrown(wrong, "a log file").message.c_str());
        }
        work = nullptr;
        background_.post(std::move(then));
    });
}

void LogIntake::take(LogStore::Piece piece, const Source& from) {
    const std::size_t bytes = piece.bytes.size();
    if (waiting_bytes_ + bytes > waiting_bytes_max)
        return put_off(piece.name, from,
                       {ErrorCode::full, "the disk of the head's data directory is slower than what comes", ""});
    waiting_bytes_ += bytes;
    const auto kept = std::make_shared<const LogStore::Piece>(std::move(piece));
    const auto size = std::make_shared<Result<std::uint64_t>>(Error{ErrorCode::internal, "it was not written", ""});
    on_log_thread([this, kept, size] { *size = store_.take(*kept); },
                  [this, kept, from, size, bytes] {
                      waiting_bytes_ -= bytes;
                      taken(kept->name, from, *size);
                  });
}

void LogIntake::let_go(const LogName& name, const Source& from, std::uint64_t end) { taken(name, from, end); }

void LogIntake::forget(RunId run) {
    on_log_thread([this, run] { store_.forget(run); }, [] {});
}

void LogIntake::taken(const LogName& name, const Source& from, const Result<std::uint64_t>& size) {
    if (!size) return put_off(name, from, size.error());
    unsynced_[name] = {.from = from, .offset = *size};
    later_sync();
    feeds_.poke();
}

// Puts a piece off. It is not acknowledged: the agent keeps it, and sends it again when it is asked for.
void LogIntake::put_off(const LogName& name, const Source& from, const Error& why) {
    if (why.code == ErrorCode::invalid) {  // it will not be better another time
        std::fprintf(stderr, "rtrain head: log of %s: %s\n", from.node.c_str(), why.message.c_str());
        return;
    }
    if (put_off_.empty()) {
        std::fprintf(stderr, "rtrain head: log of %s: %s\n", from.node.c_str(), why.message.c_str());
        background_.after(put_off_ms, [this] { offer_again(); });
    }
    put_off_[name] = from;
    note_room();
    protocol::LogAck later = ack_of(name, from, 0);
    later.later = true;
    send_(from.node, later);
}

void LogIntake::offer_again() {
    const auto wait = std::make_shared<bool>(true);
    on_log_thread([this, wait] { *wait = store_.waits_for_room(); },
                  [this, wait] {
                      note_room();
                      if (*wait) {
                          background_.after(put_off_ms, [this] { offer_again(); });
                          return;
                      }
                      for (const auto& [name, from] : std::exchange(put_off_, {}))
                          send_(from.node, ack_of(name, from, 0));
                  });
}

// Notes the room for logs, once when there is none, and once when there is some again.
void LogIntake::note_room() {
    const bool wait = store_.waiting();
    if (std::exchange(room_noted_, wait) == wait) return;
    const std::string disk = "the disk of the head's data directory (" + options_.data_dir + ")";
    const std::string text = wait ? disk +
                                        " is nearly full: workers' logs stay on their nodes until there is room; "
                                        "make some, for example: rtrain runs rm of old runs"
                                  : disk + " has room again: the logs that waited on their nodes are taken";
    events_.note({.wall_ms = wall_ms(), .text = text, .about_run = std::nullopt, .about_node = std::nullopt});
    events_.later_acknowledge();
}

void LogIntake::later_sync() {
    if (std::exchange(syncing_, true)) return;
    background_.after(sync_pause_ms, [this] { sync(); });
}

void LogIntake::sync() {
    auto batch = std::make_shared<Batch>(std::exchange(unsynced_, {}));
    background_.offload([directory = store_.directory()] { return sync_logs(directory); },
                        [](const Error& error) { return error; },
                        [this, batch](const Status& status) { synced(*batch, status); });
}

void LogIntake::synced(const Batch& batch, const Status& status) {
    syncing_ = false;
    if (!status) {
        std::fprintf(stderr, "rtrain head: logs: %s\n", status.error().message.c_str());
        unsynced_.insert(batch.begin(), batch.end());
    } else {
        for (const auto& [name, written] : batch) send_(written.from.node, ack_of(name, written.from, written.offset));
    }
    if (!unsynced_.empty()) later_sync();
}

}  // namespace rtrain::head
