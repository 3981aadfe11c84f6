// Streams the logs of a run until the run has ended. The stream may include the run's notices, such as missing ranks.
#include "daemon/head/api/log_follow.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>

#include "base/json_text.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/logs/line_states.hpp"
#include "daemon/head/logs/log_intake.hpp"
#include "daemon/head/logs/log_position.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t file_bytes_at_once =
    64 << 10;  // the most bytes of one file per turn, so that no rank displaces the others
constexpr std::size_t sent_at_once = 1 << 20;  // the most bytes that one look reads, and that may wait to be sent
// bytes; a stream that is this far behind skips lines and sends a notice
constexpr std::uint64_t behind_at_most = 8 << 20;
// ms after the run's end; later lines can be read only without `follow`
constexpr std::int64_t complete_within_ms = 5'000;

constexpr std::size_t events_at_once = 200;

std::int64_t steady_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// The position of a follower in each file, and the lines after it that the last look at the files has read. A look is
// made by a thread of the pool.
struct LogLook {
    std::string directory;
    RunId run;
    LogQuestion question;
    bool newest = false;
    std::optional<LineStates> states{};  // nullopt: the client does not request states of unfinished lines
    bool ids = false;  // true: the last line of each look gets an event id, which is the position of the stream
    bool begun = false;
    std::uint32_t first_attempt = 0;
    LogPosition sent{};
    struct Expected {  // the ranks whose logs must arrive after the run's end
        std::uint32_t attempt = 0;
        std::vector<std::uint32_t> ranks{};
    };
    Expected expected{};

    std::vector<std::string> pieces{};
    std::size_t bytes = 0;       // bytes of all pieces together
    std::size_t last_event = 0;  // where the last event begins in the last piece
    std::size_t next_file = 0;   // index of the file with which the next look begins, modulo the number of files
    bool more = false, complete = true, progressed = false;
    bool failed = false;  // true if a file could not be read
    // milliseconds after which a state that was held back may be sent; nullopt: none is held back
    std::optional<std::int64_t> state_due_ms{};

    void look() {
        pieces.clear();
        bytes = 0;
        more = progressed = failed = false;
        complete = true;
        auto listed = list_logs(directory, run);
        failed = !listed;
        if (failed) return;
        std::vector<LogFile> files = std::move(*listed);
        if (!begun) forget_invented(files);
        std::erase_if(files, [this](const LogFile& file) { return !means(question, file.name); });
        std::erase_if(files, [this](const LogFile& file) { return newest && file.name.attempt < first_attempt; });
        if (!std::exchange(begun, true)) begin(files);
        // A look that reaches its bound ends early. The next look begins with the files that are left.
        const std::size_t first = files.empty() ? 0 : next_file % files.size();
        for (std::size_t i = 0; i < files.size(); ++i) {
            const LogFile& file = files[(first + i) % files.size()];
            if (bytes < sent_at_once) {
                read(file);
                ++next_file;
            }
            more = more || sent[file.name] < file.bytes;
            complete = complete && file.complete && sent[file.name] >= file.bytes;
        }
        complete = complete && are_there(files);
        if (states) state_due_ms = states->due_ms(steady_ms());
        if (!ids || pieces.empty()) return;
        if (const std::string id = position_text(run, sent); !id.empty())
            pieces.back().insert(last_event, "id: " + id + "\n");
    }

  private:
    bool are_there(const std::vector<LogFile>& files) const {
        std::set<LogName> names;
        for (const LogFile& file : files) names.insert(file.name);
        for (const std::uint32_t rank : expected.ranks)
            for (const char* stream : {"out", "err"}) {
                const LogName name{.run = run, .attempt = expected.attempt, .rank = rank, .stream = stream};
                if (means(question, name) && !names.contains(name)) return false;
            }
        return true;
    }

    // Removes files that do not exist from the position, because a client may send any position.
    void forget_invented(const std::vector<LogFile>& files) {
        LogPosition real;
        for (const LogFile& file : files)
            if (const auto at = sent.find(file.name); at != sent.end()) real.insert(sent.extract(at));
        sent = std::move(real);
    }

    // Sets the begin of the stream at the last `tail` lines, if the client requests that.
    void begin(const std::vector<LogFile>& files) {
        for (const LogFile& file : files)
            if (question.tail) sent[file.name] = tail_offset(file, *question.tail);
    }

    static std::uint64_t tail_offset(const LogFile& file, std::size_t lines) {
        std::uint64_t offset = file.bytes > file_bytes_at_once ? file.bytes - file_bytes_at_once : 0;
        // the text after a removed part begins at or after this offset
        const bool whole = !file.cuts.empty() && file.cuts.back().end >= offset;
        if (whole) offset = std::min(file.cuts.back().end, file.bytes);
        const bool cut = offset > 0 && !whole;
        auto read = read_lines(file.path, offset, file_bytes_at_once, Unfinished::take);
        if (cut && !read.empty()) read.erase(read.begin());
        return lines >= read.size() ? (read.empty() ? file.bytes : read.front().offset)
               : lines == 0         ? file.bytes
                                    : read[read.size() - lines].offset;
    }

    void read(const LogFile& file) {
        std::uint64_t& at = sent[file.name];
        if (at >= file.bytes) return;
        std::string out;
        const std::uint64_t missing = storage::bytes_cut(file.cuts, at, file.bytes);
        if (file.bytes - at - missing > behind_at_most) {
            const std::uint64_t to = file.bytes - file_bytes_at_once;
            const std::uint64_t gone = storage::bytes_cut(file.cuts, at, to), skipped = to - at - gone;
            at = to;
            const std::string also = gone > 0 ? ", and " + std::to_string(gone) + " bytes are missing" : "";
            put(out, line_json(file.name, wall_ms(),
                               "[" + std::to_string(skipped) +
                                   " bytes left out of the live stream: rtrain logs without -f has them" + also + "]"));
        }
        std::uint64_t read_to = at;
        const auto lines =
            read_lines(file.path, read_to, file_bytes_at_once, file.complete ? Unfinished::take : Unfinished::wait);
        LogTimes times(file.path);
        for (const ReadLine& line : lines) {
            if (bytes >= sent_at_once) {
                read_to = line.offset;
                break;
            }
            const std::int64_t time = times.at(line.offset);
            if (times.failed()) {
                failed = true;
                read_to = line.offset;
                break;
            }
            if (time >= question.since_wall_ms) put(out, json_of(file, time, line));
        }
        progressed = progressed || read_to > at;
        at = read_to;
        if (states && !file.complete && bytes < sent_at_once) put_state(out, file, at);
        if (!out.empty()) pieces.push_back(std::move(out));
    }

    // A line that is longer than a piece is sent in several parts, and only the last part has an end. If a program
    // writes over a line, the earlier parts have no text, since it may do so millions of times.
    std::string json_of(const LogFile& file, std::int64_t time, const ReadLine& line) {
        if (!states) return line_json(file.name, time, line.text);
        if (line.has_end || file.complete)
            return line_with_state_json(file.name, time, line.text, states->line_ended(file.name, line.text),
                                        LineEnd::written);
        const auto state = states->next(file.name, line.text, steady_ms());
        return line_with_state_json(file.name, time, states->is_written_over(file.name) ? "" : line.text,
                                    state.value_or(""), LineEnd::not_yet);
    }

    // Sends the newest state of the unfinished line that begins at `at`. If the file has more than that line by now, a
    // later look reads it.
    void put_state(std::string& out, const LogFile& file, std::uint64_t at) {
        if (at >= file.bytes || file.bytes - at >= file_bytes_at_once || storage::cut_from(file.cuts, at)) return;
        const std::string tail = read_bytes(file.path, at, static_cast<std::size_t>(file.bytes - at));
        if (tail.find('\n') != std::string::npos) return;
        const auto state = states->next(file.name, tail, steady_ms());
        if (state) put(out, state_json(file.name, wall_ms(), *state), "state");
    }

    void put(std::string& out, const std::string& json, const char* event = "") {
        last_event = out.size();
        out += sse(json, "", event);
        bytes += out.size() - last_event;
    }
};

// Reads the query parameter `states_ms`: for each file, one state of its unfinished line in so many milliseconds.
std::optional<LineStates> states_asked(const Exchange& exchange) {
    const std::string text = exchange.query("states_ms");
    std::int64_t apart_ms = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), apart_ms);
    if (text.empty() || fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return LineStates(std::max(apart_ms, states_apart_least_ms));
}

std::optional<std::uint64_t> notices_asked(const Exchange& exchange) {
    const std::string text = exchange.query("notices_after");
    std::uint64_t after = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), after);
    if (text.empty() || fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return after;
}

// A stream of a run's logs, and of its notices if the client requests them.
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
        if (run == view_.cluster.runs.end()) return Feeds::Pumped::ended;
        if (to.waiting() > sent_at_once) return Feeds::Pumped::again;
        if (std::exchange(noticed_news_, feeds_.news()) != feeds_.news() && !send_notices(to))
            return Feeds::Pumped::ended;
        const bool ended = durability_.ended_for_good(run->second);
        if (looking_ == Looking::now) return Feeds::Pumped::goes_on;
        bool more = false;
        if (std::exchange(looking_, Looking::no) == Looking::done) {
            if (!write_pieces(to)) return Feeds::Pumped::ended;
            more = look_->progressed && look_->more;
            look_again_for_states();
            if (ended && ended_before_ && shows_all(run->second)) {
                to.write(sse(json_text(run_json(view_, run->second, JobWords::shown)), "", "end"));
                return Feeds::Pumped::ended;
            }
        }
        if (ended && !ended_before_) look_->expected = expected();
        if (ended || more || std::exchange(state_due_, false) || seen_news_ != feeds_.news()) begin_look(ended);
        return Feeds::Pumped::goes_on;
    }
    void on_ready(Feeds::Ready ready) { ready_ = std::move(ready); }

  private:
    enum class Looking { no, now, done };

    // Returns true if the stream is complete: the look after the run's end has read the last line, or no more lines are
    // awaited.
    bool shows_all(const Run& run) const {
        const bool late = wall_ms() - run.ended_wall_ms > complete_within_ms;
        return !look_->failed && (look_->complete || (late && !look_->progressed));
    }

    bool write_pieces(net::Stream& to) {
        auto pieces = std::exchange(look_->pieces, {});
        return std::ranges::all_of(pieces, [&](std::string& piece) { return to.write(std::move(piece)); });
    }

    void look_again_for_states() {
        if (!look_->state_due_ms || std::exchange(looks_again_, true)) return;
        background_.after(*look_->state_due_ms, [weak = weak_from_this()] {
            const auto self = weak.lock();
            if (!self) return;
            self->looks_again_ = false;
            self->state_due_ = true;
            self->ready_();
        });
    }

    void begin_look(bool ended) {
        looking_ = Looking::now;
        ended_before_ = ended;
        seen_news_ = feeds_.news();
        background_.offload_at(
            look_->directory, [look = look_] { look->look(); },
            [self = shared_from_this()] {
                self->looking_ = Looking::done;
                self->ready_();
            });
    }

    // Returns the ranks of the newest attempt that write logs. The run may end before the head receives the first piece
    // of their files.
    LogLook::Expected expected() const {
        LogLook::Expected expected;
        const auto attempts = attempts_of(view_.cluster, look_->run);
        if (attempts.empty()) return expected;
        const Attempt& newest = *attempts.back();
        expected.attempt = newest.id.number;
        for (std::uint32_t rank = 0; rank < newest.workers.size(); ++rank) {
            if (newest.workers[rank].pid == 0) continue;  // the rank has never run, so it has no log
            const auto node = view_.cluster.nodes.find(newest.workers[rank].seat.node);
            const bool is_simulated = node != view_.cluster.nodes.end() && node->second.labels.contains("simulated");
            if (!is_simulated) expected.ranks.push_back(rank);  // the ranks of a simulated node print nothing
        }
        return expected;
    }

    bool send_notices(net::Stream& to) {
        while (notices_after_) {
            const auto rows = journal_.events(EventId{*notices_after_}, events_at_once, look_->run);
            for (const state::EventRow& row : rows) {
                notices_after_ = row.id.value;
                if (row.kind != "Notice") continue;
                if (!to.write(sse(json_text(event_json(view_, row)), "", "notice"))) return false;
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
    const std::shared_ptr<LogLook> look_;  // a thread of the pool uses it during a look
    std::optional<std::uint64_t> notices_after_;
    Looking looking_ = Looking::no;
    std::optional<std::uint64_t> seen_news_;     // value of Feeds::news() at the begin of the last look
    std::optional<std::uint64_t> noticed_news_;  // value of Feeds::news() when notices were last read
    bool looks_again_ = false;                   // true while a timer runs for a state that was held back
    bool state_due_ = false;                     // true once that timer has ended
    bool ended_before_ = false;                  // true if the run had ended at the begin of the last look
    Feeds::Ready ready_;
};

Result<LogPosition> position_asked(const Exchange& exchange, RunId run) {
    const std::string last = exchange.request.header("last-event-id"),
                      text = last.empty() ? exchange.query("after") : last;
    if (text.empty()) return LogPosition();
    if (auto position = position_of(text, run)) return std::move(*position);
    return Error{ErrorCode::usage, "after= is no position in this run's logs",
                 "read the last lines again: tail=N&position=true"};
}

}  // namespace

void follow_logs(Exchange& exchange, const LogIntake& logs, const state::SqliteJournal& journal, Feeds& feeds,
                 const LogFollowing& following) {
    auto position = position_asked(exchange, following.run);
    if (!position) return refuse(exchange, position.error());
    auto stream = exchange.responder->stream("text/event-stream");
    if (!stream) return;
    LogLook look{.directory = logs.directory(),
                 .run = following.run,
                 .question = following.question,
                 .newest = exchange.query("attempt").empty(),
                 .states = states_asked(exchange),
                 .ids = exchange.asked("position") || !position->empty(),
                 .sent = std::move(*position)};
    if (!look.sent.empty()) look.question.tail.reset();
    const auto attempts = attempts_of(exchange.view.cluster, following.run);
    if (look.newest && !attempts.empty()) look.first_attempt = attempts.back()->id.number;
    // Without a given attempt, later attempts belong to the stream too. The newest one may also get a higher number by
    // its claim.
    if (look.newest) look.question.attempts.reset();
    auto follower = std::make_shared<LogFollower>(exchange, journal, feeds, std::move(look));
    follower->on_ready(
        feeds.add(std::move(stream), [follower](net::Stream& to) { return follower->pump(to); }, exchange.permitted));
}

}  // namespace rtrain::head
