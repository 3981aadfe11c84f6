#include "runtime/worker/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "runtime/worker/last_error.hpp"
#include "runtime/worker/removal.hpp"
#include "runtime/worker/rtrain_worker.h"

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds look_every = 200ms;
// for a program that continues to report after an error
constexpr std::size_t kept_max = 2 * KeptReports::bytes_max / 64;
constexpr int looks_in_vain = 100;
constexpr std::chrono::milliseconds last_words_within = 10s;
constexpr auto commit_within = 30s;
constexpr auto commit_looked_for_every = 5ms;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

// Accepts decimal digits only; otherwise nullopt.
std::optional<std::uint32_t> number(const std::string& text) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
    return static_cast<std::uint32_t>(std::stoul(text));
}

}  // namespace

int settings_from_environment(Settings& out) {
    out.socket = variable("RTRAIN_WORKER_SOCKET");
    out.key = variable("RTRAIN_WORKER_KEY");
    out.attempt = variable("RTRAIN_ATTEMPT");
    if (out.socket.empty()) {
        return failed(
            RTW_NOT_A_WORKER,
            "this process is not a worker of an rtrain run (RTRAIN_WORKER_SOCKET is not set); start the program "
            "with `rtrain submit`");
    }
    const auto rank = number(variable("RANK"));
    if (!rank) {
        return failed(RTW_INVALID, "RANK is '" + variable("RANK") +
                                       "' and should be this worker's number; the agent sets it, so do not change it");
    }
    out.rank = *rank;
    const std::string wait = variable("RTRAIN_AGENT_WAIT_MS");
    const auto wait_ms = number(wait.empty() ? "300000" : wait);
    if (!wait_ms) return failed(RTW_INVALID, "RTRAIN_AGENT_WAIT_MS is '" + wait + "' and should be milliseconds");
    out.agent_wait = std::chrono::milliseconds(*wait_ms);
    return RTW_OK;
}

// ---- open and close

Session::Session(Settings settings)
    : process_(::getpid()), loop_(std::move(settings), process_, waits_), files_(loop_) {}

int Session::open(Settings settings, Place place, std::unique_ptr<Session>& out) {
    std::unique_ptr<Session> session(new Session(std::move(settings)));
    {
        Locked client = session->loop_.lock();
        const int code = session->loop_.connect(client, "opening", place);
        const bool is_own = client->place().is_own();
        if (code != RTW_OK && is_own) return code;
        if (is_own) session->loop_.start_heartbeat();
    }
    out = std::move(session);
    return RTW_OK;
}

// Gives up the rank's place. A forked child has nothing to end: the thread and the connection are its parent's, and a
// condition variable that the parent's thread waits for must not be destroyed here.
void Session::close(std::unique_ptr<Session> session) {
    if (!session->is_foreign_process()) return;
    session->loop_.of_forked_child().connection().close_all();
    static_cast<void>(session.release());
}

Session::~Session() {
    if (!loop_.has_heartbeat()) return;
    deliver_reports();
    loop_.stop();
}

// Rounds that the ranks have passed without the agent may exist in this process's memory only.
void Session::deliver_reports() {
    const std::unique_lock call(calls_, std::try_to_lock);
    if (!call.owns_lock()) return;  // Another thread is in a call, and this process ends all the same.
    Locked client = loop_.lock();
    const KeptReports& kept = client->reports().kept();
    const std::uint64_t returned = client->reports().returned();
    const auto heard = [&] { return kept.empty() || kept.first() > returned; };
    client->read_report_memory();
    if (heard()) return;
    client->connection().send(FromWorker{ReportsPosted{}});
    const auto looks = [&] { return client->rounds().in_use() && client->connection().is_open() && !heard(); };
    for (int look = 0; looks() && look < looks_in_vain; ++look) {  // messages that it receives wake no thread
        loop_.pause(client, 1ms);
        client->read_report_memory();
    }
    // A restarting agent is back soon. If reports have passed without the agent, this waits as long as any other call,
    // because only this process has them.
    client->read_socket();
    const bool behind = !client->is_attached() || !kept.all_sent();
    if (behind)
        std::fprintf(stderr, "rtrain: waiting for the agent, which has not heard the last %zu reports\n", kept.size());
    const auto agent_wait = client->place().settings().agent_wait;
    const auto within = behind ? std::max(last_words_within, agent_wait) : last_words_within;
    if (loop_.wait_until(client, "closing", Clock::now() + within, heard) != RTW_OK)
        std::fprintf(stderr, "rtrain: the agent has not heard the last %zu reports\n", kept.size());
}

bool Session::is_foreign_process() const { return ::getpid() != process_; }

int Session::wrong_process() const {
    return failed(RTW_INVALID, "this process (" + std::to_string(::getpid()) + ") was forked from process " +
                                   std::to_string(process_) +
                                   ", the worker itself (is this a data loader's process?); " +
                                   "only that one may report");
}

// ---- reports and checkpoints

int Session::stage(std::string& path) {
    if (is_foreign_process()) return wrong_process();
    const std::lock_guard call(calls_);
    Locked client = loop_.lock();
    if (const int code = loop_.take_place(client, "asking for a checkpoint directory"); code != RTW_OK) return code;
    const int code = files_.request_directory(client, path);
    if (code == RTW_OK) client->directories().give_to_program(path);
    return code;
}

int Session::report(ReportCall call) {
    if (is_foreign_process()) return wrong_process();
    const std::lock_guard only_call(calls_);
    Locked client = loop_.lock();
    if (const int code = loop_.take_place(client, "reporting"); code != RTW_OK) return code;
    if (client->reports().kept().size() >= kept_max) return loop_.gone(client, "reporting");
    Report report{.metrics_json = std::move(call.metrics_json), .upload = call.upload};
    const auto begun = call.directory ? Clock::now() : Clock::time_point{};
    std::optional<ReportedDirectory> reported;
    if (call.files == ReportCall::Files::copied_then_removed && call.directory) reported.emplace(*call.directory);
    std::string not_staged;  // reported to the program after the barrier has passed
    if (const int code = files_.stage(client, call, report, not_staged); code != RTW_OK) return code;
    if (!report.checkpoint || report.checkpoint->path == *call.directory) reported.reset();
    bool has_files_of_all = false;
    const int code = send_report(client, report, has_files_of_all);
    client->reports().returned_at(Clock::now());
    if (code != RTW_OK) return code;
    count_wait(client, call, begun);
    const bool is_taken_over = client->checkpoints().promised() == report.index || has_files_of_all;
    if (reported && is_taken_over) files_.remove_reported(client, *reported);
    if (!not_staged.empty()) return failed(RTW_STORAGE, not_staged);
    return take_upload_fault(client);
}

// Sets `has_files_of_all` if the ranks have passed the report without an agent, with the files of all of them.
int Session::send_report(Locked& client, Report& report, bool& has_files_of_all) {
    const std::uint64_t index = client->begin_report(report);
    const int code = loop_.wait_until(client, "reporting", {}, [&] { return client->is_released(index); });
    client->reports().end();
    if (code != RTW_OK) return code;
    AgentClient::Passed passed = client->pass_report(report);
    has_files_of_all = passed.has_files_of_all;
    if (!passed.freed.empty()) files_.empty_and_keep(client, std::move(passed.freed));
    if (report.checkpoint) client->prepare_next_files();
    return RTW_OK;
}

int Session::take_upload_fault(Locked& client) {
    auto fault = client->checkpoints().take_fault();
    return fault ? failed(RTW_STORAGE, std::move(*fault)) : RTW_OK;
}

// In a report that passed with a checkpoint of any rank, each rank waits for files, so the whole call counts as that.
// In other reports a rank waits for later ranks.
void Session::count_wait(Locked& client, const ReportCall& call, Clock::time_point begun) {
    const ReportRounds& reports = client->reports();
    const auto since = call.directory ? begun : reports.begun();
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(reports.ended() - since);
    if (call.directory || client->checkpoints().promised() == reports.returned())
        waits_.add_checkpoint(waited);
    else
        waits_.add_barrier(waited);
}

int Session::flush(std::chrono::milliseconds limit) {
    constexpr const char* doing = "waiting for checkpoints to be committed";
    if (is_foreign_process()) return wrong_process();
    const std::lock_guard call(calls_);
    Locked client = loop_.lock();
    if (const int code = loop_.take_place(client, doing); code != RTW_OK) return code;
    AgentLoop::Deadline deadline;
    if (limit.count() >= 0) deadline = Clock::now() + limit;
    const int code = loop_.wait_until(client, doing, deadline, [&] { return client->checkpoints().all_committed(); });
    return code != RTW_OK ? code : take_upload_fault(client);
}

// Waits until the fate of the last reported checkpoint is known. Does not wait while the agent is away, nor again for
// one that took too long. Calls of other threads continue: `calls_` is not held, so this only checks what has arrived,
// and reads itself if no other thread does.
std::optional<ResumeFrom> Session::checkpoint() {
    if (is_foreign_process()) return loop_.of_forked_child().checkpoints().first();
    Locked client = loop_.lock();
    loop_.read_unless_awaited(client);
    Checkpoints& checkpoints = client->checkpoints();
    const std::uint64_t report = checkpoints.promised();
    const auto deadline = Clock::now() + commit_within;
    while (!checkpoints.is_settled(report) && client->connection().is_open()) {
        const auto now = Clock::now();
        if (client->requests().stop_is_overdue(now)) break;
        if (now >= deadline) {
            checkpoints.no_longer_awaited(report);
            std::fprintf(stderr,
                         "rtrain: the checkpoint of report %llu is still being stored: get_checkpoint gives the one "
                         "before; see `rtrain events`\n",
                         static_cast<unsigned long long>(report));
            break;
        }
        loop_.pause(client, commit_looked_for_every);
        loop_.read_unless_awaited(client);
    }
    return checkpoints.newest();
}

std::uint64_t Session::next_report() { return loop_.lock()->reports().next(); }

// ---- other calls

int Session::broadcast(std::optional<std::string> data, std::string& out) {
    if (is_foreign_process()) return wrong_process();
    if (data && data->size() > frame_bytes_max / 4 * 3 - 1024) {
        return failed(RTW_INVALID,
                      "a broadcast of " + std::to_string(data->size()) +
                          " bytes is too large (48 MiB at most); put the data into a file or use torch.distributed");
    }
    const std::lock_guard call(calls_);
    Locked client = loop_.lock();
    if (const int code = loop_.take_place(client, "broadcasting"); code != RTW_OK) return code;
    client->begin_broadcast(std::move(data));
    const int code = loop_.wait_until(client, "broadcasting", {}, [&] { return client->broadcasts().is_answered(); });
    if (code == RTW_OK) out = client->broadcasts().take_answer();
    return code;
}

// Another thread may be in a call that waits for ranks without end. It must not delay the cause.
int Session::fail(const std::string& text) {
    if (is_foreign_process()) return wrong_process();
    constexpr const char* doing = "telling the cause of the failure";
    const std::unique_lock call(calls_, std::try_to_lock);
    Locked client = loop_.lock();
    if (!client->place().is_own()) return loop_.refuse_other_process(client);
    const auto until = Clock::now() + 2s;
    const Connection& connection = client->connection();
    if (call.owns_lock())
        if (const int code = loop_.wait_until(client, doing, until, [&] { return connection.is_open(); });
            code != RTW_OK)
            return code;
    if (!connection.is_open()) return loop_.gone(client, doing);
    client->connection().send(FromWorker{Fail{text.substr(0, std::size_t{256} << 10)}});
    if (call.owns_lock()) return loop_.wait_until(client, doing, until, [&] { return !connection.has_backlog(); });
    while (connection.is_open() && connection.has_backlog() && Clock::now() < until) {
        const Link::Wait wait = connection.wait();
        client.released([&] { wait.until_ready(static_cast<int>(look_every.count())); });
        client->read_socket();
    }
    return connection.has_backlog() ? loop_.gone(client, doing) : RTW_OK;
}

int Session::wanted() {
    if (is_foreign_process()) return 0;
    const Locked client = loop_.try_lock();
    if (!client || loop_.has_waiting_caller(client)) return loop_.wanted();
    if (client->rounds().in_use() && client->connection().is_open())
        client->read_report_memory();
    else
        client->read_socket();
    return loop_.wanted();
}

std::string Session::wanted_json() {
    const int what = wanted();
    return what == 0 ? "" : loop_.lock()->requests().json(what);
}

// A forked child takes no lock, because a thread that does not exist there may hold it.
std::string Session::context_json() {
    if (is_foreign_process()) return loop_.of_forked_child().context_json();
    return loop_.lock()->context_json();
}

}  // namespace rtrain::worker
