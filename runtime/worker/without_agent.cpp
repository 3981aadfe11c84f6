// The session without an agent, if all ranks of the attempt are on this node. Reports pass in the shared memory, and
// checkpoints are staged in spare directories. Only the newest checkpoint that waits for an agent is kept.
#include <filesystem>

#include "runtime/worker/rtrain_worker.h"
#include "runtime/worker/session.hpp"

namespace rtrain::worker {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds silence_most = 600ms;  // three beats of the agent
constexpr auto welcome_patience = 30s;                     // A stopped agent may hold many connections.
constexpr std::chrono::milliseconds welcome_looked_for_every = 5ms;
constexpr std::size_t spares_most = 2;  // one waits for the next agent while the next one is written
constexpr std::size_t spares_kept_most = 4;

// Returns whether it is empty now.
bool emptied(const std::string& directory) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;) {
        std::filesystem::remove_all(entry->path(), error);
        if (!error) entry.increment(error);
    }
    return !error;
}

// Files that already lie in the run's directory would remain there, so their report is not replaced.
bool may_be_emptied(const std::string& directory) {
    std::error_code error;
    return !std::filesystem::exists(std::filesystem::path(directory) / ".rtrain-in-place", error) && !error;
}

}  // namespace

// Returns true if the connection stands. Reports its end to the other ranks once.
bool Session::attached() {
    if (link_.open()) return true;
    if (!lost_at_) lost_at_ = Clock::now();
    if (memory_ && offer_.alone && !detached_) {
        detached_ = true;
        memory_->detach();
    }
    return false;
}

// Returns true if the agent has shown no activity for a while although its connection stands: it is stopped, or hangs.
// Counts only while this rank waits for the agent.
bool Session::agent_is_silent() {
    if (!memory_ || !offer_.alone || !link_.open()) return false;
    const auto now = Clock::now();
    const std::uint32_t beats = memory_->beats();
    if (beats != beats_ || now - beat_looked_ > silence_most / 2) beat_at_ = now;
    beats_ = beats;
    beat_looked_ = now;
    return now - beat_at_ > silence_most;
}

// Another agent has welcomed this rank.
void Session::leave_memory() {
    if (memory_ && detached_) memory_->attach();
    memory_.reset();
    offer_ = {};
    detached_ = false;
}

void Session::send_due() {
    if (link_.open()) kept_.send_due([this](const std::string& frame) { link_.send(frame); });
}

// Returns why there is no agent yet; empty if one has welcomed this rank or was greeted. Never waits, because a stopped
// agent accepts connections too.
std::string Session::dial_further(Place place) {
    if (!greeting_.open()) return greet(place);
    if (take_welcome(place)) return {};
    const bool in_vain = !greeting_.open() || !refused_.empty() || Clock::now() - dialled_ > welcome_patience;
    return in_vain ? give_up_dialling() : std::string{};
}

// Looks for an agent and waits for other ranks meanwhile, at most 100 ms. While ranks are missing, the delay is not the
// agent's.
int Session::wait_while_detached(Lock& lock, const char* doing, std::optional<Clock::time_point> deadline) {
    if (under_way_ && !memory_->all_detached_at(under_way_->index)) waits_since_ = Clock::now();
    if (greeting_.open() || Clock::now() - dialled_ >= redial_every) {
        const int code = try_agent(doing, Place::wanted, deadline);
        if (code != RTW_OK || link_.open()) return code;
    }
    const ReportMemory& memory = *memory_;
    lock.unlock();
    memory.wait(wakeups_seen_, greeting_.open() ? welcome_looked_for_every : redial_every);
    lock.lock();
    return RTW_OK;
}

bool Session::take_spare(std::string& path) {
    if (attached() || !detached_ || spares_.empty()) return false;
    path = std::move(spares_.back());
    spares_.pop_back();
    return true;
}

// Only after the first report with files, so that a run without checkpoints creates no directories.
void Session::request_spares() {
    if (!offer_.alone) return;
    for (; spares_.size() + spares_requested_ < spares_most; ++spares_requested_) send(Stage{.spare = true});
}

bool Session::stores(const Report& report) const {
    const Upload upload = report.upload == Upload::run_default ? offer_.upload : report.upload;
    return report.checkpoint && upload != Upload::none;
}

bool Session::waits_for_storage(const Report& report) const {
    const Upload upload = report.upload == Upload::run_default ? offer_.upload : report.upload;
    return report.checkpoint && upload == Upload::sync;
}

// Called before arrive(): writes what other ranks must read about this rank's report.
void Session::say_what_it_needs(const Report& report) {
    if (stop_after_ != 0) memory_->stop_after(stop_after_);
    if (waits_for_storage(report) || kept_.full()) memory_->only_by_agent(report.index);
    const bool unstored = report.checkpoint && !stores(report);
    if (unstored || !report.checkpoint_error.empty()) memory_->without_files(report.index);
}

// Writes this rank's progress again into a new memory, because the agent that offered it may end before it reads a
// message.
void Session::arrive_anew() {
    if (stop_after_ != 0) memory_->stop_after(stop_after_);
    if (under_way_) say_what_it_needs(*under_way_);
    const std::uint64_t newest = under_way_ ? under_way_->index : returned_;
    if (newest != 0) static_cast<void>(memory_->arrive(newest, false));
}

// Removes a directory that no agent was requested to store. Other calls of this process continue meanwhile.
void Session::keep_as_spare(Lock& lock, std::string directory) {
    lock.unlock();
    const bool empty = emptied(directory);
    lock.lock();
    if (empty && offer_.alone && spares_.size() < spares_kept_most) spares_.push_back(std::move(directory));
}

// The report has passed with this rank's files, and no agent has received it. Incomplete files (another rank could not
// stage its own, or stores none) replace no complete checkpoint: they are removed.
void Session::passed_detached(Lock& lock, const Report& report, bool whole) {
    std::string freed;
    if (!whole || !stores(report)) {
        freed = kept_.passed_unstored(report.index);
        std::erase(uncommitted_, report.index);
    } else if (const auto replaced = kept_.passed_with_files(report.index, may_be_emptied)) {
        std::erase(uncommitted_, replaced->index);
        freed = replaced->directory;
    }
    if (!freed.empty()) keep_as_spare(lock, std::move(freed));
}

}  // namespace rtrain::worker
