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

// What one follower has been sent of each file, and what a look at the files finds for it. Looks are made on the pool.
struct LogLook {
    std::string directory;
    RunId run;
    LogQuestion question;
    bool newest = false, begun = false;
    std::uint32_t first_attempt = 0;
    std::map<LogName, std::uint64_t> sent{};

    std::vector<std::string> found{};
    bool more = false, complete = true, progressed = false;

    void look() {
        found.clear();
        more = progressed = false;
        complete = true;
        const std::vector<LogFile> files = log_files(directory, run);
        if (!std::exchange(begun, true)) begin(files);
        if (newest) question.attempts.reset();  // attempts that begin later belong to the stream
        for (const LogFile& file : files) {
            if (!means(question, file.name) || (newest && file.name.attempt < first_attempt)) continue;
            read(file);
            more = more || sent[file.name] < file.bytes;
            complete = complete && file.complete && sent[file.name] >= file.bytes;
        }
    }

  private:
    // Where the stream begins: at the last `tail` lines, at a time, or at the beginning.
    void begin(const std::vector<LogFile>& files) {
        for (const LogFile& file : files)
            if (question.tail) sent[file.name] = tail_offset(file, *question.tail);
    }

    static std::uint64_t tail_offset(const LogFile& file, std::size_t lines) {
        std::uint64_t offset = file.bytes > turn_bytes ? file.bytes - turn_bytes : 0;
        const bool cut = offset > 0;
        auto read = read_lines(file.path, offset, turn_bytes, Unfinished::take);
        if (cut && !read.empty()) read.erase(read.begin());
        return lines >= read.size() ? (read.empty() ? file.bytes : read.front().offset)
               : lines == 0         ? file.bytes
                                    : read[read.size() - lines].offset;
    }

    void read(const LogFile& file) {
        std::uint64_t& at = sent[file.name];
        if (at >= file.bytes) return;
        const LogTimes times = read_times(file.path);
        if (file.bytes - at > behind_at_most) {
            const std::uint64_t skipped = file.bytes - turn_bytes - at;
            at += skipped;
            const std::string text =
                "[" + std::to_string(skipped) + " bytes left out of the live stream: rtrain logs without -f has them]";
            found.push_back(sse(line_json(file.name, wall_ms(), text)));
        }
        const auto lines = read_lines(file.path, at, turn_bytes, file.complete ? Unfinished::take : Unfinished::wait);
        std::string out;
        for (const ReadLine& line : lines) {
            const std::int64_t time = times.at(line.offset);
            if (time >= question.since_wall_ms) out += sse(line_json(file.name, time, line.text));
        }
        progressed = progressed || !lines.empty();
        if (!out.empty()) found.push_back(std::move(out));
    }
};

// One stream of a run's logs, and of its notices where they were asked for.
class LogFollower : public std::enable_shared_from_this<LogFollower> {
  public:
    LogFollower(Head& head, LogLook look, std::optional<std::uint64_t> notices_after)
        : head_(head), look_(std::make_shared<LogLook>(std::move(look))), notices_after_(std::move(notices_after)) {}

    Feeds::Pumped pump(net::Stream& to) {
        const auto run = head_.cluster.runs.find(look_->run);
        if (run == head_.cluster.runs.end() || !send_notices(to)) return Feeds::Pumped::ended;
        const bool ended = head_.ended_for_good(run->second);
        if (looking_ == Looking::now) return Feeds::Pumped::goes_on;
        if (std::exchange(looking_, Looking::no) == Looking::done) {
            for (std::string& piece : std::exchange(look_->found, {}))
                if (!to.write(std::move(piece))) return Feeds::Pumped::ended;
            const bool news = seen_news_ != head_.feeds.news();
            if (!ended && !news && !(look_->progressed && look_->more)) return Feeds::Pumped::goes_on;
            if (ended && ended_before_) {
                const bool late = wall_ms() - run->second.ended_wall_ms > complete_within_ms;
                if (look_->complete || (late && !look_->progressed)) {
                    to.write(sse(text_of(run_json(head_, run->second)), "", "end"));
                    return Feeds::Pumped::ended;
                }
            }
        }
        begin_look(ended);
        return Feeds::Pumped::goes_on;
    }

  private:
    enum class Looking { no, now, done };

    void begin_look(bool ended) {
        looking_ = Looking::now;
        ended_before_ = ended;
        seen_news_ = head_.feeds.news();
        head_.loop.offload_at(
            look_->directory, [look = look_] { look->look(); },
            [self = shared_from_this()] {
                self->looking_ = Looking::done;
                self->head_.feeds.pump_soon();
            });
    }

    bool send_notices(net::Stream& to) {
        while (notices_after_) {
            const auto rows = head_.journal->events(EventId{*notices_after_}, events_at_once, look_->run);
            for (const state::EventRow& row : rows) {
                notices_after_ = row.id.value;
                if (row.kind != "Notice") continue;
                if (!to.write(sse(text_of(event_json(head_, row)), "", "notice"))) return false;
            }
            if (rows.size() < events_at_once) break;
        }
        return true;
    }

    Head& head_;
    const std::shared_ptr<LogLook> look_;  // the pool's while it looks
    std::optional<std::uint64_t> notices_after_;
    Looking looking_ = Looking::no;
    std::uint64_t seen_news_ = 0;  // as the last look began
    bool ended_before_ = false;    // the run, for good, as the last look began
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
    LogLook look{.directory = ask.head.logs.directory(),
                 .run = run,
                 .question = question,
                 .newest = ask.query("attempt").empty()};
    const auto attempts = attempts_of(ask.head.cluster, run);
    if (look.newest && !attempts.empty()) look.first_attempt = attempts.back()->id.number;
    auto follower = std::make_shared<LogFollower>(ask.head, std::move(look), notices_asked(ask));
    ask.head.feeds.add(
        std::move(stream), [follower](net::Stream& to) { return follower->pump(to); }, still_permitted(ask));
}

void remove_answer(const std::string& path) {
    std::error_code gone;
    std::filesystem::remove(path, gone);
}

// On the pool: writes the answer to `path`. Returns its text when it is short, and removes the file.
Result<std::optional<std::string>> written(const std::string& logs, RunId run, const LogQuestion& question,
                                           const std::string& path) {
    const Status done = write_lines(log_files(logs, run), question, path);
    std::error_code unknown;
    const bool is_short = done && std::filesystem::file_size(path, unknown) <= in_memory_at_most && !unknown;
    if (done && !is_short) return std::optional<std::string>();
    auto text = done ? read_file(path) : Result<std::string>(done.error());
    remove_answer(path);
    if (!text) return text.error();
    return std::optional(std::move(*text));
}

void answer(Ask& ask, const std::string& path, std::optional<std::string> text) {
    net::Response answer{.status = 200, .content_type = "application/jsonl"};
    if (text) {
        answer.body = std::move(*text);
    } else {
        answer.file = path;
        answer.permitted = still_permitted(ask);
        ask.head.loop.after(file_kept_ms,
                            [&loop = ask.head.loop, path] { loop.offload([path] { remove_answer(path); }, [] {}); });
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
    const std::string path = ask.head.scratch_path(), logs = ask.head.logs.directory();
    on_pool_at(
        logs, ask, [path, logs, run = *run, question = *question] { return written(logs, run, question, path); },
        [path](Ask& kept, Result<std::optional<std::string>> text) {
            text ? answer(kept, path, std::move(*text)) : refuse(kept, text.error());
        });
}

void prune_logs(Head& head) {
    struct Ended {
        RunId run;
        std::int64_t age_ms = 0;
        std::string job_json;
    };
    std::vector<Ended> all;
    const std::int64_t now = wall_ms();
    for (const auto& [id, run] : head.cluster.runs)
        if (terminal(run.state) && run.ended_wall_ms != 0) all.push_back({id, now - run.ended_wall_ms, run.job_json});
    const auto prune = [all = std::move(all), logs = head.logs.directory()] {
        std::error_code unseen;
        for (const Ended& one : all) {
            if (!std::filesystem::exists(logs + "/" + std::to_string(one.run.value), unseen)) continue;
            const auto job = spec::job_from_json(one.job_json, spec::JsonFrom::record).job;
            if (one.age_ms > (job ? job->logs_keep_ms : spec::Job{}.logs_keep_ms)) forget_logs(logs, one.run);
        }
    };
    head.loop.offload_at(head.logs.directory(), prune, [] {});
}

}  // namespace rtrain::head
