// The life of the session: opening, the connection and its messages, the heartbeat, closing.
#include "runtime/worker/session.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/worker/last_error.hpp"
#include "runtime/worker/rtrain_worker.h"

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr auto heartbeat_every = 1000ms;
constexpr auto welcome_within = 5s;
constexpr auto refusal_patience = 10s;
constexpr auto release_within = 1s;

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

std::int64_t cpu_ms() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return std::int64_t{used.tv_sec} * 1000 + used.tv_nsec / 1'000'000;
}

}  // namespace

int Settings::from_environment(Settings& out) {
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

int Session::open(Settings settings, Place place, std::unique_ptr<Session>& out) {
    std::unique_ptr<Session> session(new Session(std::move(settings), place));
    session->process_ = ::getpid();
    {
        Lock lock(session->state_);
        session->lost_at_ = Clock::now();
        const int code = session->wait_for_agent(lock, "opening", place, {});
        if (code != RTW_OK && session->holder_ == 0) return code;
        if (session->holder_ == 0) session->start_heartbeat();
    }
    out = std::move(session);
    return RTW_OK;
}

// Signals belong to the program: its own threads must get them, not the heartbeat.
void Session::start_heartbeat() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    heartbeat_ = std::thread([this] { heartbeat_loop(); });
    ::pthread_setname_np(heartbeat_.native_handle(), "rtrain-pulse");
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Gives up the rank's place. A forked child has nothing to end: the thread and the connection are its parent's, and a
// condition variable that the parent's thread waits for must not be destroyed here.
void Session::close(std::unique_ptr<Session> session) {
    if (!session->foreign_process()) return;
    session->link_.close();
    session->greeting_.close();
    static_cast<void>(session.release());
}

Session::~Session() {
    if (!heartbeat_.joinable()) return;
    serve_agent();
    {
        const Lock lock(state_);
        closing_ = true;
        send(Release{});
        link_.wait_sent(release_within);
    }
    close_now_.notify_all();
    heartbeat_.join();
}

bool Session::foreign_process() const { return ::getpid() != process_; }

// Returns why the agent did not welcome this rank.
std::string Session::give_up_dialling() {
    std::string why = greeting_.open() ? "it does not answer" : greeting_.why_closed();
    greeting_.close();
    // An agent that has just restarted may not have found its workers yet, so its first refusals are not final.
    if (!refused_.empty() && welcomed_ && lost_at_ && Clock::now() - *lost_at_ < refusal_patience)
        why = "it refused: " + std::exchange(refused_, {});
    return why;
}

// Connects and sends hello. Returns why that failed; empty: an answer is to come.
std::string Session::greet(Place place) {
    holder_ = 0;
    dialled_ = Clock::now();
    if (memory_) kept_.heard_up_to(memory_->heard());
    if (std::string why = greeting_.connect(settings_.socket); !why.empty()) return why;
    Hello hello{.attempt = settings_.attempt,
                .rank = settings_.rank,
                .pid = process_,
                .key = settings_.key,
                .next_index = kept_.empty() ? next_report_ : kept_.first(),
                .uncommitted = uncommitted_,
                .report_memory = true,
                .place = place};
    if (promised_ > settled_ && std::find(uncommitted_.begin(), uncommitted_.end(), promised_) == uncommitted_.end())
        hello.uncommitted.push_back(promised_);
    greeting_.send(encode(FromWorker{hello}));
    return {};
}

// Reads the agent's answer. Returns true if it has welcomed this process, and stores the connection unless another
// process has the rank's place.
bool Session::take_welcome(Place place) {
    std::vector<FromAgent> messages;
    greeting_.read([&](FromAgent message) { messages.push_back(std::move(message)); });
    const bool welcome = std::any_of(messages.begin(), messages.end(),
                                     [](const FromAgent& message) { return std::holds_alternative<Welcome>(message); });
    if (welcome) link_.swap(greeting_);
    for (FromAgent& message : messages) on_message(std::move(message));
    if (!welcome) return false;
    greeting_.close();
    dialled_ = Clock::now();
    if (place == Place::not_wanted && holder_ == 0) holder_ = -1;  // an older agent, which has no notion of places
    if (holder_ != 0) {
        link_.close();
        return true;
    }
    lost_at_.reset();
    welcomed_ = true;
    if (staging_) link_.send(encode(FromWorker{Stage{}}));
    spares_requested_ = 0;
    kept_.connected();
    send_due();
    if (asked_) link_.send(asked_->second);
    return true;
}

std::string Session::dial(Place place) {
    if (std::string why = greet(place); !why.empty()) return why;
    const auto deadline = Clock::now() + welcome_within;
    while (greeting_.open() && Clock::now() < deadline) {
        greeting_.wait().until_ready(100);
        if (take_welcome(place)) return {};
    }
    dialled_ = Clock::now();
    return give_up_dialling();
}

void Session::on_message(FromAgent message) {
    if (auto* welcome = std::get_if<Welcome>(&message)) {
        holder_ = welcome->holder;
        leave_memory();
        // Written once: a forked child may read it while the parent's thread receives the next one.
        if (context_json_ != welcome->context_json) context_json_ = welcome->context_json;
        if (!first_ && welcome->checkpoint) first_ = newest_ = welcome->checkpoint;
        if (holder_ != 0 || counts_) return;
        counts_ = true;
        next_report_ = std::max(next_report_, welcome->next_index);
        next_broadcast_ = std::max(next_broadcast_, welcome->next_broadcast);
    } else if (auto* refuse = std::get_if<Refuse>(&message)) {
        refused_ = refuse->message;
    } else if (auto* staged = std::get_if<Staged>(&message)) {
        on_message(*staged);
    } else if (auto* reported = std::get_if<Reported>(&message)) {
        kept_.answered(reported->index);
        send_due();
        if (!reported->directory) return;
        std::uint64_t& last = reported->directory->empty() ? settled_ : promised_;
        last = std::max(last, reported->index);
    } else if (auto* committed = std::get_if<Committed>(&message)) {
        on_message(*committed);
    } else if (auto* broadcast = std::get_if<Broadcast>(&message)) {
        if (!asked_ || asked_->first != broadcast->index) return;  // a repeated answer
        heard_[broadcast->index] = broadcast->data.value_or("");
        asked_.reset();
    } else if (auto* wish = std::get_if<Wanted>(&message)) {
        wanted_ = static_cast<int>(wish->what);
        wish_ = *wish;
        if (wish->what == Wish::stop && !stop_heard_) stop_heard_ = Clock::now();
    } else if (const auto* offer = std::get_if<ReportMemoryOffer>(&message)) {
        on_message(*offer);
    }
}

// If memory cannot be shared, the offer is declined, and all messages use the socket.
void Session::on_message(const ReportMemoryOffer& offer) {
    if (link_.descriptor() < 0) return;
    memory_ = ReportMemory::open(link_.descriptor(), offer.ring);
    if (!memory_) return;
    offer_ = offer;
    messages_read_ = 0;
    wakeups_seen_ = memory_->wakeups();
    beat_at_ = Clock::now();
    detachments_ = memory_->detachments();
    if (!offer.stop.empty()) stop_ = offer.stop;
    arrive_anew();
    send(ReportMemoryTaken{});
    if (brings_files_) request_spares();
}

void Session::on_message(const Staged& staged) {
    if (staged.spare) {
        if (spares_requested_ > 0) --spares_requested_;
        if (!staged.path.empty()) spares_.push_back(staged.path);
        return;
    }
    staged_ = staged.path;
    staged_error_ = staged.error;
    staged_reason_ = staged.reason;
    staging_ = false;
}

void Session::on_message(const Committed& news) {
    std::erase(uncommitted_, news.index);
    settled_ = std::max(settled_, news.index);
    if (news.error) {
        upload_faults_.push_back("the checkpoint of report " + std::to_string(news.index) +
                                 " could not be stored: " + *news.error);
        return;
    }
    if (news.directory.empty()) return;  // The checkpoint was given up: the one before stays the newest.
    const auto metrics = std::find_if(recent_metrics_.begin(), recent_metrics_.end(),
                                      [&](const auto& past_report) { return past_report.first == news.index; });
    newest_ = ResumeFrom{.path = news.path,
                         .directory = news.directory,
                         .metrics_json = metrics == recent_metrics_.end() ? "{}" : metrics->second};
}

void Session::read_news() {
    if (!link_.open()) return;
    link_.read([this](FromAgent message) { on_message(std::move(message)); });
    if (!link_.open() && !lost_at_) lost_at_ = Clock::now();
}

// A message that arrived over the socket before an answer is handled before the answer. The count of wake-ups is read
// first: a message that arrives while this function runs causes another wake-up.
void Session::read_report_memory() {
    if (!memory_) return;
    wakeups_seen_ = memory_->wakeups();
    if (!attached()) return;
    const std::uint64_t heard = memory_->heard();
    if (const std::uint32_t messages = memory_->messages(); messages != messages_read_) {
        messages_read_ = messages;
        read_news();
    }
    kept_.heard_up_to(heard);
    send_due();
}

int Session::gone(const char* doing) const {
    const auto away = lost_at_ ? Clock::now() - *lost_at_ : Clock::duration{};
    const std::string seconds = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(away).count());
    return failed(RTW_AGENT_GONE, "the agent at " + settings_.socket + " has not answered for " + seconds +
                                      " s while " + doing + " (" + dial_fault_ +
                                      "); see `rtrain doctor` on this machine");
}

// Tries to connect once. RTW_OK: it is connected, or there is time left to try again.
int Session::try_agent(const char* doing, Place place, std::optional<Clock::time_point> deadline) {
    dial_fault_ = detached_ ? dial_further(place) : dial(place);
    if (!refused_.empty()) return failed(RTW_STOPPED, "the agent refuses this worker: " + refused_);
    if (holder_ != 0) return refuse_other_process();
    if (link_.open()) return RTW_OK;
    const auto now = Clock::now();
    if (lost_at_ && now - std::max(*lost_at_, waits_since_) > settings_.agent_wait) return gone(doing);
    return deadline && now >= *deadline ? gone(doing) : RTW_OK;
}

// Releases the lock while it waits. RTW_OK: it is connected.
int Session::wait_for_agent(Lock& lock, const char* doing, Place place, std::optional<Clock::time_point> deadline) {
    while (!link_.open()) {
        if (const int code = try_agent(doing, place, deadline); code != RTW_OK) return code;
        if (!link_.open()) close_now_.wait_for(lock, redial_every, [this] { return closing_; });
    }
    return RTW_OK;
}

void Session::send(const FromWorker& message) { link_.send(encode(message)); }

void Session::send_heartbeat() {
    if (!caller_waits_) read_news();
    if (!caller_waits_) read_report_memory();
    if (!attached() && !caller_waits_ && refused_.empty() && holder_ == 0)
        dial_fault_ = detached_ ? dial_further(Place::wanted) : dial(Place::wanted);
    if (!link_.open() || link_.backlog()) return;  // An agent that does not read gets no further messages.
    const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_report_);
    const std::int64_t waited_us = data_wait_us_;
    send(Heartbeat{.silent_ms = silent.count(),
                   .cpu_ms = cpu_ms(),
                   .data_wait_ms = waited_us < 0 ? -1 : waited_us / 1000,
                   .barrier_wait_ms = barrier_wait_us_ / 1000,
                   .barrier_waits = barrier_waits_,
                   .checkpoint_wait_ms = checkpoint_wait_us_ / 1000});
}

void Session::heartbeat_loop() {
    Lock lock(state_);
    while (!closing_) {
        send_heartbeat();
        close_now_.wait_for(lock, link_.open() && kept_.all_sent() ? heartbeat_every : redial_every,
                            [this] { return closing_; });
    }
}

}  // namespace rtrain::worker
