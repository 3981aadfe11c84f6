// Logs of a run: what was written so far as JSON lines, or followed as a stream until the run has ended; who follows
// may have the run's notices (missing ranks, for example) in the same stream.
#include <charconv>
#include <filesystem>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/logs/log_intake.hpp"
#include "daemon/head/logs/log_lines.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/spec/job.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t file_bytes_at_once = 64 << 10;  // of one file at a time, so that no rank drowns the others
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

    std::vector<std::string> pieces{};
    bool more = false, complete = true, progressed = false;

    void look() {
        pieces.clear();
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
        std::uint64_t offset = file.bytes > file_bytes_at_once ? file.bytes - file_bytes_at_once : 0;
        const bool cut = offset > 0;
        auto read = read_lines(file.path, offset, file_bytes_at_once, Unfinished::take);
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
            const std::uint64_t skipped = file.bytes - file_bytes_at_once - at;
            at += skipped;
            const std::string text =
                "[" + std::to_string(skipped) + " bytes left out of the live stream: rtrain logs without -f has them]";
            pieces.push_back(sse(line_json(file.name, wall_ms(), text)));
        }
        const auto lines =
            read_lines(file.path, at, file_bytes_at_once, file.complete ? Unfinished::take : Unfinished::wait);
        std::string out;
        for (const ReadLine& line : lines) {
            const std::int64_t time = times.at(line.offset);
            if (time >= question.since_wall_ms) out += sse(line_json(file.name, time, line.text));
        }
        progressed = progressed || !lines.empty();
        if (!out.empty()) pieces.push_back(std::move(out));
    }
};

std::optional<std::uint64_t> notices_asked(const Exchange& exchange) {
    const std::string text = exchange.query("notices_after");
    std::uint64_t after = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), after);
    if (text.empty() || fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return after;
}

// One stream of a run's logs, and of its notices where they were asked for.
class LogFollower : public std::enable_shared_from_this<LogFollower> {
  public:
    LogFollower(const Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds, LogLook look)
        : view_(exchange.view),
          durability_(exchange.durability),
          background_(exchange.background),
          journal_(journal),
          feeds_(feeds),
          look_(std::make_shared<LogLook>(std::move(look))),
          notices_after_(notices_asked(exchange)) {}

    Feeds::Pumped pump(net::Stream& to) {
        const auto run = view_.cluster.runs.find(look_->run);
        if (run == view_.cluster.runs.end() || !send_notices(to)) return Feeds::Pumped::ended;
        const bool ended = durability_.ended_for_good(run->second);
        if (looking_ == Looking::now) return Feeds::Pumped::goes_on;
        if (std::exchange(looking_, Looking::no) == Looking::done) {
            for (std::string& piece : std::exchange(look_->pieces, {}))
                if (!to.write(std::move(piece))) return Feeds::Pumped::ended;
            const bool news = seen_news_ != feeds_.news();
            if (!ended && !news && !(look_->progressed && look_->more)) return Feeds::Pumped::goes_on;
            if (ended && ended_before_) {
                const bool late = wall_ms() - run->second.ended_wall_ms > complete_within_ms;
                if (look_->complete || (late && !look_->progressed)) {
                    to.write(sse(text_of(run_json(view_, run->second, JobWords::shown)), "", "end"));
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
        seen_news_ = feeds_.news();
        background_.offload_at(
            look_->directory, [look = look_] { look->look(); },
            [self = shared_from_this()] {
                self->looking_ = Looking::done;
                self->feeds_.pump_soon();
            });
    }

    bool send_notices(net::Stream& to) {
        while (notices_after_) {
            const auto rows = journal_.events(EventId{*notices_after_}, events_at_once, look_->run);
            for (const state::EventRow& row : rows) {
                notices_after_ = row.id.value;
                if (row.kind != "Notice") continue;
                if (!to.write(sse(text_of(event_json(view_, row)), "", "notice"))) return false;
            }
            if (rows.size() < events_at_once) break;
        }
        return true;
    }

    const View& view_;
    const Durability durability_;
    const net::Background background_;
    const state::SqliteJournal& journal_;
    Feeds& feeds_;
    const std::shared_ptr<LogLook> look_;  // the pool's while it looks
    std::optional<std::uint64_t> notices_after_;
    Looking looking_ = Looking::no;
    std::uint64_t seen_news_ = 0;  // as the last look began
    bool ended_before_ = false;    // the run, for good, as the last look began
};

void follow_logs(Exchange& exchange, const LogIntake& logs, const state::SqliteJournal& journal, Feeds& feeds,
                 RunId run, const LogQuestion& question) {
    auto stream = exchange.responder->stream("text/event-stream");
    if (!stream) return;
    LogLook look{
        .directory = logs.directory(), .run = run, .question = question, .newest = exchange.query("attempt").empty()};
    const auto attempts = attempts_of(exchange.view.cluster, run);
    if (look.newest && !attempts.empty()) look.first_attempt = attempts.back()->id.number;
    auto follower = std::make_shared<LogFollower>(exchange, journal, feeds, std::move(look));
    feeds.add(std::move(stream), [follower](net::Stream& to) { return follower->pump(to); }, exchange.permitted);
}

void remove_answer(const std::string& path) {
    std::error_code gone;
    std::filesystem::remove(path, gone);
}

// Writes the answer to `path`; runs on the pool. Returns its text when it is short, and removes the file.
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

void answer(Exchange& exchange, const std::string& path, std::optional<std::string> text) {
    net::Response answer{.status = 200, .content_type = "application/jsonl"};
    if (text) {
        answer.body = std::move(*text);
    } else {
        answer.file = path;
        answer.permitted = exchange.permitted;
        exchange.background.after(file_kept_ms, [background = exchange.background, path] {
            background.offload([path] { remove_answer(path); }, [] {});
        });
    }
    exchange.responder->send(std::move(answer));
}

}  // namespace

void get_logs(Exchange& exchange, const HeadOptions& options, const LogIntake& intake,
              const state::SqliteJournal& journal, Feeds& feeds) {
    const auto run = find_run(exchange.view, exchange.variables["run"]);
    if (!run) return refuse(exchange, run.error());
    const auto question = log_question(exchange.view.cluster, *run,
                                       {.rank = exchange.query("rank"),
                                        .attempt = exchange.query("attempt"),
                                        .stream = exchange.query("stream"),
                                        .since_ms = exchange.query("since_ms"),
                                        .tail = exchange.query("tail")},
                                       wall_ms());
    if (!question) return refuse(exchange, question.error());
    if (exchange.asked("follow")) return follow_logs(exchange, intake, journal, feeds, *run, *question);
    const std::string path = scratch_path(options), logs = intake.directory();
    on_pool_at(
        logs, exchange, [path, logs, run = *run, question = *question] { return written(logs, run, question, path); },
        [path](Exchange& kept, Result<std::optional<std::string>> text) {
            text ? answer(kept, path, std::move(*text)) : refuse(kept, text.error());
        });
}

}  // namespace rtrain::head
