#include "runtime/worker/agent_loop.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>

#include "runtime/worker/last_error.hpp"
#include "runtime/worker/rtrain_worker.h"

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr auto heartbeat_every = 1000ms;
constexpr auto release_within = 1s;
constexpr std::chrono::milliseconds look_every = 200ms;
constexpr std::chrono::milliseconds welcome_looked_for_every = 5ms;

std::int64_t cpu_ms() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return std::int64_t{used.tv_sec} * 1000 + used.tv_nsec / 1'000'000;
}

}  // namespace

// ---- the heartbeat thread

// Signals belong to the program: its own threads must get them, not the heartbeat.
void AgentLoop::start_heartbeat() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    heartbeat_ = std::thread([this] { run_heartbeat(); });
    ::pthread_setname_np(heartbeat_.native_handle(), "rtrain-pulse");
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void AgentLoop::run_heartbeat() {
    Locked client = lock();
    while (!closing_) {
        send_heartbeat(client);
        const bool idle = client->connection().is_open() && client->reports().kept().all_sent();
        pause(client, idle ? heartbeat_every : redial_every);
    }
}

void AgentLoop::send_heartbeat(Locked& client) {
    if (!caller_waits_) client->read_socket();
    if (!caller_waits_) client->read_report_memory();
    if (!client->is_attached() && !caller_waits_ && client->may_dial()) client->dial(Place::wanted);
    // An agent that does not read gets no further messages.
    if (!client->connection().is_open() || client->connection().has_backlog()) return;
    Heartbeat heartbeat{.cpu_ms = cpu_ms()};
    waits_.write_to(heartbeat);
    client->send_heartbeat(heartbeat);
}

void AgentLoop::stop() {
    {
        const Locked client = lock();
        closing_ = true;
        client->connection().send(FromWorker{Release{}});
        client->connection().wait_sent(release_within);
    }
    close_now_.notify_all();
    heartbeat_.join();
}

void AgentLoop::pause(Locked& client, std::chrono::milliseconds limit) {
    close_now_.wait_for(client.lock_, limit, [this] { return closing_; });
}

// ---- waits of a call

int AgentLoop::connect(Locked& client, const char* doing, Place place) {
    client->connection().count_from(Clock::now());
    return wait_for_agent(client, doing, place, {});
}

int AgentLoop::take_place(Locked& client, const char* doing) {
    if (client->place().is_own()) return RTW_OK;
    const int code = connect(client, doing, Place::wanted);
    if (code == RTW_OK && !has_heartbeat()) start_heartbeat();
    return code;
}

int AgentLoop::wait_until(Locked& client, const char* doing, Deadline deadline, const std::function<bool()>& done) {
    struct Waiting {
        bool& flag;
        explicit Waiting(bool& f) : flag(f) { flag = true; }
        ~Waiting() { flag = false; }
    } waiting(caller_waits_);
    waits_since_ = Clock::now();
    for (;;) {
        client->read_report_memory();
        if (done()) return RTW_OK;
        client->end_silent_agent();
        if (!client->is_attached()) {
            const int code = client->rounds().is_detached() ? wait_while_detached(client, doing, deadline)
                                                            : wait_for_agent(client, doing, Place::wanted, deadline);
            if (code != RTW_OK) return code;
            continue;
        }
        const auto now = Clock::now();
        if (client->requests().stop_is_overdue(now)) {
            return failed(RTW_STOPPED, std::string("the run is being stopped; ") + doing + " was given up");
        }
        if (deadline && now >= *deadline) {
            return failed(RTW_AGENT_GONE, std::string(doing) + " was not answered within the limit");
        }
        const auto left = deadline ? std::chrono::ceil<std::chrono::milliseconds>(*deadline - now) : look_every;
        wait_for_news(client, std::min<std::chrono::milliseconds>(left, look_every));
    }
}

// A wake-up of shared report memory also means messages on the socket; its absence may mean that the agent has died.
// While this thread waits here, no other thread changes the memory or the link's socket (rule 2).
void AgentLoop::wait_for_news(Locked& client, std::chrono::milliseconds limit) {
    if (client->rounds().in_use() && !client->connection().has_backlog()) {
        const SharedRounds::Wait wait = client->rounds().wait();
        const bool woken = client.released([&] { return wait.until_woken(limit); });
        const bool detachments = client->rounds().take_detachments();
        if (!woken || detachments) client->read_socket();
        return;
    }
    const Link::Wait wait = client->connection().wait();
    client.released([&] { wait.until_ready(static_cast<int>(limit.count())); });
    client->read_socket();
}

// RTW_OK: it is connected.
int AgentLoop::wait_for_agent(Locked& client, const char* doing, Place place, Deadline deadline) {
    while (!client->connection().is_open()) {
        if (const int code = try_agent(client, doing, place, deadline); code != RTW_OK) return code;
        if (!client->connection().is_open()) pause(client, redial_every);
    }
    return RTW_OK;
}

// Tries to connect once. RTW_OK: it is connected, or there is time left to try again.
int AgentLoop::try_agent(Locked& client, const char* doing, Place place, Deadline deadline) {
    client->dial(place);
    const Connection& connection = client->connection();
    if (!connection.refused().empty())
        return failed(RTW_STOPPED, "the agent refuses this worker: " + connection.refused());
    if (!client->place().is_own()) return refuse_other_process(client);
    if (connection.is_open()) return RTW_OK;
    const auto now = Clock::now();
    const auto& lost_at = connection.lost_at();
    if (lost_at && now - std::max(*lost_at, waits_since_) > client->place().settings().agent_wait)
        return gone(client, doing);
    return deadline && now >= *deadline ? gone(client, doing) : RTW_OK;
}

// Looks for an agent and waits for other ranks meanwhile, at most 100 ms. While ranks are missing, the delay is not the
// agent's.
int AgentLoop::wait_while_detached(Locked& client, const char* doing, Deadline deadline) {
    const auto& report = client->reports().under_way();
    if (report && !client->rounds().all_arrived_detached(report->index)) waits_since_ = Clock::now();
    if (client->connection().is_time_to_dial()) {
        const int code = try_agent(client, doing, Place::wanted, deadline);
        if (code != RTW_OK || client->connection().is_open()) return code;
    }
    const SharedRounds::Wait wait = client->rounds().wait();
    const auto limit = client->connection().is_greeting() ? welcome_looked_for_every : redial_every;
    client.released([&] { return wait.until_woken(limit); });
    return RTW_OK;
}

void AgentLoop::read_unless_awaited(Locked& client) {
    if (!caller_waits_) client->read_socket();
}

// ---- failures

int AgentLoop::refuse_other_process(const Locked& client) const {
    return failed(RTW_INVALID, client->place().refusal());
}

int AgentLoop::gone(const Locked& client, const char* doing) const {
    const Connection& connection = client->connection();
    const auto away = connection.lost_at() ? Clock::now() - *connection.lost_at() : Clock::duration{};
    const std::string seconds = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(away).count());
    return failed(RTW_AGENT_GONE, "the agent at " + client->place().settings().socket + " has not answered for " +
                                      seconds + " s while " + doing + " (" + connection.fault() +
                                      "); see `rtrain doctor` on this machine");
}

}  // namespace rtrain::worker
