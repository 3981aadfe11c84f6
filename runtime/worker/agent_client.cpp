#include "runtime/worker/agent_client.hpp"

#include <filesystem>
#include <utility>
#include <variant>
#include <vector>

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr auto welcome_within = 5s;

// Files that already lie in the run's directory would remain there, so their report is not replaced.
bool may_be_emptied(const std::string& directory) {
    std::error_code error;
    return !std::filesystem::exists(std::filesystem::path(directory) / ".rtrain-in-place", error) && !error;
}

}  // namespace

// ---- the connection

void AgentClient::dial(Place place) {
    connection_.set_fault(rounds_.is_detached() ? dial_further(place) : dial_and_wait(place));
}

// Connects and sends hello. Returns why that failed; empty: an answer is to come.
std::string AgentClient::greet(Place place) {
    place_.requested();
    if (rounds_.in_use()) reports_.kept().heard_up_to(rounds_.heard());
    Hello hello = place_.hello(place);
    hello.next_index = reports_.first_to_send();
    hello.uncommitted = checkpoints_.awaited();
    return connection_.greet(place_.settings().socket, hello);
}

// Reads the agent's answer. Returns true if it has welcomed this process, and stores the connection unless another
// process has the rank's place.
bool AgentClient::take_welcome(Place place) {
    std::vector<FromAgent> messages;
    const bool welcome = connection_.read_answer(messages);
    for (FromAgent& message : messages) on_message(std::move(message));
    if (!welcome) return false;
    connection_.answered();
    if (place == Place::not_wanted) place_.welcomed_to_read();
    if (!place_.is_own()) {
        connection_.close();
        return true;
    }
    connection_.welcomed();
    if (directories_.is_requested()) connection_.send(FromWorker{Stage{}});
    directories_.forget_spare_requests();
    reports_.kept().connected();
    send_due();
    if (const std::string* frame = broadcasts_.unanswered()) connection_.send(*frame);
    return true;
}

std::string AgentClient::dial_and_wait(Place place) {
    if (std::string why = greet(place); !why.empty()) return why;
    const auto deadline = Clock::now() + welcome_within;
    while (connection_.is_greeting() && Clock::now() < deadline) {
        connection_.wait_for_answer(100ms);
        if (take_welcome(place)) return {};
    }
    connection_.gave_up_now();
    return connection_.give_up();
}

// Returns why there is no agent yet; empty if one has welcomed this rank or was greeted. Never waits, because a stopped
// agent accepts connections too.
std::string AgentClient::dial_further(Place place) {
    if (!connection_.is_greeting()) return greet(place);
    if (take_welcome(place)) return {};
    return connection_.is_in_vain() ? connection_.give_up() : std::string{};
}

bool AgentClient::is_attached() {
    if (connection_.is_open()) return true;
    connection_.lost();
    rounds_.detach();
    return false;
}

void AgentClient::end_silent_agent() {
    if (!rounds_.in_use() || !rounds_.alone() || !connection_.is_open()) return;
    if (rounds_.agent_is_silent(Clock::now())) connection_.close();
}

void AgentClient::read_socket() {
    connection_.read([this](FromAgent message) { on_message(std::move(message)); });
}

// A message that arrived over the socket before an answer is handled before the answer. The count of wake-ups is read
// first: a message that arrives while this function runs causes another wake-up.
void AgentClient::read_report_memory() {
    if (!rounds_.in_use()) return;
    rounds_.see_wakeups();
    if (!is_attached()) return;
    const std::uint64_t heard = rounds_.heard();
    if (rounds_.take_messages()) read_socket();
    reports_.kept().heard_up_to(heard);
    send_due();
}

void AgentClient::send_heartbeat(Heartbeat heartbeat) {
    const auto silent = Clock::now() - reports_.ended();
    heartbeat.silent_ms = std::chrono::duration_cast<std::chrono::milliseconds>(silent).count();
    connection_.send(FromWorker{heartbeat});
}

// ---- messages

void AgentClient::on_message(FromAgent message) {
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
        on_message(*welcome);
    } else if (const auto* refuse = std::get_if<Refuse>(&message)) {
        connection_.on_message(*refuse);
    } else if (const auto* staged = std::get_if<Staged>(&message)) {
        directories_.on_message(*staged);
    } else if (const auto* reported = std::get_if<Reported>(&message)) {
        reports_.kept().answered(reported->index);
        send_due();
        checkpoints_.on_message(*reported);
    } else if (const auto* committed = std::get_if<Committed>(&message)) {
        checkpoints_.on_message(*committed);
    } else if (auto* broadcast = std::get_if<Broadcast>(&message)) {
        broadcasts_.on_message(std::move(*broadcast));
    } else if (const auto* wanted = std::get_if<Wanted>(&message)) {
        requests_.on_message(*wanted, Clock::now());
    } else if (const auto* offer = std::get_if<ReportMemoryOffer>(&message)) {
        on_message(*offer);
    }
}

void AgentClient::on_message(const Welcome& welcome) {
    place_.welcomed(welcome.holder);
    rounds_.leave();
    // Written once: a forked child may read it while the parent's thread receives the next one.
    if (context_json_ != welcome.context_json) context_json_ = welcome.context_json;
    checkpoints_.on_message(welcome.checkpoint);
    if (!place_.is_own() || has_counts_) return;
    has_counts_ = true;
    reports_.count_from(welcome.next_index);
    broadcasts_.count_from(welcome.next_broadcast);
}

// If memory cannot be shared, the offer is declined, and all messages use the socket.
void AgentClient::on_message(const ReportMemoryOffer& offer) {
    if (connection_.descriptor() < 0) return;
    if (!rounds_.open(connection_.descriptor(), offer, Clock::now())) return;
    if (!offer.stop.empty()) reports_.stop_at(offer.stop);
    arrive_anew();
    connection_.send(FromWorker{ReportMemoryTaken{}});
    if (reports_.brings_files()) request_spares();
}

// Writes this rank's progress again into a new memory, because the agent that offered it may end before it reads a
// message.
void AgentClient::arrive_anew() {
    rounds_.stop_after(reports_.stop_after());
    if (const auto& report = reports_.under_way())
        rounds_.announce(*report, reports_.stop_after(), reports_.kept().full());
    if (reports_.newest() != 0) static_cast<void>(rounds_.arrive(reports_.newest(), false));
}

// ---- reports

std::uint64_t AgentClient::begin_report(Report& report) {
    reports_.number(report);
    checkpoints_.reported(report);
    post_or_send(report);
    return report.index;
}

// With shared report memory only the last rank notifies the agent, and each heartbeat does once a second.
void AgentClient::post_or_send(const Report& report) {
    const bool in_order = reports_.kept().all_sent();  // no earlier report waits to be sent
    const std::string& frame = reports_.begin(report, Clock::now());
    if (place_.settings().rank == 0) reports_.check_stop(report);
    if (!rounds_.in_use()) return send_due();
    rounds_.announce(report, reports_.stop_after(), reports_.kept().full());
    const bool posted =
        in_order && is_attached() && !report.checkpoint && rounds_.post(report.index, frame, reports_.interval_ms());
    const bool notifies = rounds_.arrive(report.index, posted);
    if (!posted) return send_due();
    reports_.kept().sent(report.index);
    if (notifies) connection_.send(FromWorker{ReportsPosted{}});
}

void AgentClient::send_due() {
    if (!connection_.is_open()) return;
    reports_.kept().send_due([this](const std::string& frame) { connection_.send(frame); });
}

bool AgentClient::is_released(std::uint64_t index) {
    if (!reports_.kept().has(index)) return true;
    if (!rounds_.in_use()) return false;
    return is_attached() ? rounds_.is_released(index) : rounds_.pass_detached(index);
}

AgentClient::Passed AgentClient::pass_report(const Report& report) {
    reports_.passed(report);
    if (is_attached() || !rounds_.is_detached() || !reports_.kept().has(report.index)) return {};
    Passed passed{.has_files_of_all = rounds_.has_files_of_all(report.index)};
    if (report.checkpoint) passed.freed = passed_detached(report, passed.has_files_of_all);
    return passed;
}

// The report has passed with this rank's files, and no agent has received it. Incomplete files (another rank could not
// stage its own, or stores none) replace no complete checkpoint: they are removed. Returns the directory whose files
// are no longer needed.
std::string AgentClient::passed_detached(const Report& report, bool has_files_of_all) {
    if (!has_files_of_all || !rounds_.stores(report)) {
        checkpoints_.given_up(report.index);
        return reports_.kept().passed_unstored(report.index);
    }
    const auto replaced = reports_.kept().passed_with_files(report.index, may_be_emptied);
    if (!replaced) return {};
    checkpoints_.given_up(replaced->index);
    return replaced->directory;
}

void AgentClient::prepare_next_files() {
    if (is_attached()) request_spares();
    requests_.checkpoint_reported();
}

// ---- staging directories and broadcasts

void AgentClient::request_directory() {
    directories_.request();
    connection_.send(FromWorker{Stage{}});
}

std::optional<std::string> AgentClient::take_spare() {
    if (is_attached() || !rounds_.is_detached()) return std::nullopt;
    return directories_.take_spare();
}

// Only after the first report with files, so that a run without checkpoints creates no directories.
void AgentClient::request_spares() {
    if (!rounds_.alone()) return;
    for (std::size_t left = directories_.request_spares(); left > 0; --left)
        connection_.send(FromWorker{Stage{.spare = true}});
}

void AgentClient::begin_broadcast(std::optional<std::string> data) {
    connection_.send(broadcasts_.begin(std::move(data)));
}

}  // namespace rtrain::worker
