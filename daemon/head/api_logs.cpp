// Logs of a run: what was written so far as JSON lines, or followed as a stream until the run has ended; who follows
// may have the run's notices (missing ranks, for example) in the same stream.
#include <charconv>
#include <filesystem>

#include "daemon/head/api.hpp"
#include "daemon/head/log_lines.hpp"
#include "daemon/head/view_json.hpp"
#include "storage/spec/job.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t turn_bytes = 64 << 10;        // of one file at a time, so that no rank drowns the others
constexpr std::uint64_t behind_at_most = 8 << 20;   // farther behind a flooding rank, the live stream skips and says so
constexpr std::int64_t complete_within_ms = 5'000;  // after the run's end: what comes later is read without follow
constexpr std::size_t in_memory_at_most = 1 << 20;
constexpr std::int64_t file_kept_ms = 600'000;

constexpr std::size_t events_at_once = 200;

// What one follower has been sent of each file, and of the run's notices where it asked for those.
class LogFollower {
  public:
    LogFollower(Head& head, RunId run, LogQuestion question, bool newest, std::optional<std::uint64_t> notices_after)
        : head_(head),
          run_(run),
          question_(std::move(question)),
          newest_(newest),
          notices_after_(std::move(notices_after)) {}

    Feeds::Pumped pump(net::Stream& to) {
        const auto run = head_.cluster.runs.find(run_);
        if (run == head_.cluster.runs.end()) return Feeds::Pumped::ended;
        if (newest_) question_.attempts.reset();  // attempts that begin later belong to the stream
        if (!send_notices(to)) return Feeds::Pumped::ended;
        bool more = false, complete = true;
        progressed_ = false;
        for (const LogFile& file : head_.logs.files(run_)) {
            if (!means(question_, file.name) || (newest_ && file.name.attempt < first_attempt_)) continue;
            if (!send(to, file)) return Feeds::Pumped::ended;
            more = more || sent_[file.name] < file.bytes;
            complete = complete && file.complete && sent_[file.name] >= file.bytes;
        }
        if (!head_.ended_for_good(run->second))
            return progressed_ && more ? Feeds::Pumped::again : Feeds::Pumped::goes_on;
        const bool late = wall_ms() - run->second.ended_wall_ms > complete_within_ms;
        if (!complete && !(late && !progressed_)) return Feeds::Pumped::again;
        to.write(sse(text_of(run_json(head_, run->second)), "", "end"));
        return Feeds::Pumped::ended;
    }

    // Where the stream begins: at the last `tail` lines, at a time, or at the beginning.
    void start() {
        const auto attempts = attempts_of(head_.cluster, run_);
        if (newest_ && !attempts.empty()) first_attempt_ = attempts.back()->id.number;
        for (const LogFile& file : head_.logs.files(run_))
            if (question_.tail) sent_[file.name] = tail_offset(file, *question_.tail);
    }

  private:
    static std::uint64_t tail_offset(const LogFile& file, std::size_t lines) {
        std::uint64_t offset = file.bytes > turn_bytes ? file.bytes - turn_bytes : 0;
        const bool cut = offset > 0;
        auto read = read_lines(file.path, offset, turn_bytes, Unfinished::take);
        if (cut && !read.empty()) read.erase(read.begin());
        return lines >= read.size() ? (read.empty() ? file.bytes : read.front().offset)
               : lines == 0         ? file.bytes
                                    : read[read.size() - lines].offset;
    }

    bool send_notices(net::Stream& to) {
        while (notices_after_) {
            const auto rows = head_.journal->events(EventId{*notices_after_}, events_at_once, run_);
            for (const state::EventRow& row : rows) {
                notices_after_ = row.id.value;
                if (row.kind != "Notice") continue;
                if (!to.write(sse(text_of(event_json(head_, row)), "", "notice"))) return false;
            }
            if (rows.size() < events_at_once) break;
        }
        return true;
    }

    bool send(net::Stream& to, const LogFile& file) {
        std::uint64_t& at = sent_[file.name];
        if (at >= file.bytes) return true;
        const LogTimes times = read_times(file.path);
        if (file.bytes - at > behind_at_most) {
            const std::uint64_t skipped = file.bytes - turn_bytes - at;
            at += skipped;
            const std::string text =
                "[" + std::to_string(skipped) + " bytes left out of the live stream: rtrain logs without -f has them]";
            if (!to.write(sse(line_json(file.name, wall_ms(), text)))) return false;
        }
        const auto lines = read_lines(file.path, at, turn_bytes, file.complete ? Unfinished::take : Unfinished::wait);
        std::string out;
        for (const ReadLine& line : lines) {
            const std::int64_t time = times.at(line.offset);
            if (time >= question_.since_wall_ms) out += sse(line_json(file.name, time, line.text));
        }
        progressed_ = progressed_ || !lines.empty();
        return out.empty() || to.write(std::move(out));
    }

    Head& head_;
    RunId run_;
    LogQuestion question_;
    bool newest_;
    std::optional<std::uint64_t> notices_after_;
    std::uint32_t first_attempt_ = 0;
    bool progressed_ = false;
    std::map<LogName, std::uint64_t> sent_;
};

std::optional<std::uint64_t> notices_asked(const Ask& ask) {
    const std::string text = ask.query("notices_after");
    std::uint64_t after = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), after);
    if (text.empty() || fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return after;
}

void follow(Ask& ask, RunId run, const LogQuestion& question) {
    auto stream = ask.responder->stream("text/event-stream");
    if (!stream) return;
    auto follower =
        std::make_shared<LogFollower>(ask.head, run, question, ask.query("attempt").empty(), notices_asked(ask));
    follower->start();
    ask.head.feeds.add(
        std::move(stream), [follower](net::Stream& to) { return follower->pump(to); }, still_permitted(ask));
}

void answer_file(Ask& ask, const std::string& path) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(path, unknown);
    net::Response answer{.status = 200, .content_type = "application/jsonl"};
    if (!unknown && size <= in_memory_at_most) {
        auto text = read_file(path);
        std::filesystem::remove(path, unknown);
        if (!text) return refuse(ask, text.error());
        answer.body = std::move(*text);
    } else {
        answer.file = path;
        answer.permitted = still_permitted(ask);
        ask.head.loop.after(file_kept_ms, [path] {
            std::error_code gone;
            std::filesystem::remove(path, gone);
        });
    }
    ask.responder->send(std::move(answer));
}

}  // namespace

void get_logs(Ask& ask) {
    const auto run = find_run(ask.head, ask.variables["run"]);
    if (!run) return refuse(ask, run.error());
    const auto question = log_question(ask.head.cluster, *run,
                                       {.rank = ask.query("rank"),
                                        .attempt = ask.query("attempt"),
                                        .stream = ask.query("stream"),
                                        .since_ms = ask.query("since_ms"),
                                        .tail = ask.query("tail")},
                                       wall_ms());
    if (!question) return refuse(ask, question.error());
    if (ask.asked("follow")) return follow(ask, *run, *question);
    const std::string path = ask.head.scratch_path();
    on_pool(
        ask,
        [path, question = *question, files = ask.head.logs.files(*run)] { return write_lines(files, question, path); },
        [path](Ask& kept, const Status& written) {
            written ? answer_file(kept, path) : refuse(kept, written.error());
        });
}

void prune_logs(Head& head) {
    for (const auto& [id, run] : head.cluster.runs) {
        if (!terminal(run.state) || run.ended_wall_ms == 0) continue;
        const auto job = spec::job_from_json(run.job_json, spec::JsonFrom::record).job;
        const std::int64_t keep = job ? job->logs_keep_ms : spec::Job{}.logs_keep_ms;
        if (wall_ms() - run.ended_wall_ms > keep) head.logs.forget(id);
    }
}

}  // namespace rtrain::head
