#include "runtime/worker/rank/shared_rounds.hpp"

#include <utility>

namespace rtrain::worker {
namespace {

constexpr std::chrono::milliseconds silence_most{600};  // three beats of the agent
constexpr std::size_t frame_prefix = 4;                 // frames in shared report memory have no length in front

}  // namespace

bool SharedRounds::open(int descriptor, const ReportMemoryOffer& offer, Clock::time_point now) {
    memory_ = ReportMemory::open(descriptor, offer.ring);
    if (!memory_) return false;
    offer_ = offer;
    messages_read_ = 0;
    wakeups_seen_ = memory_->wakeups();
    beat_at_ = now;
    detachments_seen_ = memory_->detachments();
    return true;
}

void SharedRounds::leave() {
    if (memory_ && is_detached_) memory_->attach();
    memory_.reset();
    offer_ = {};
    is_detached_ = false;
}

bool SharedRounds::take_messages() {
    const std::uint32_t messages = memory_->messages();
    return std::exchange(messages_read_, messages) != messages;
}

bool SharedRounds::take_detachments() {
    const std::uint32_t detachments = memory_->detachments();
    return std::exchange(detachments_seen_, detachments) != detachments;
}

bool SharedRounds::agent_is_silent(Clock::time_point now) {
    const std::uint32_t beats = memory_->beats();
    if (beats != beats_seen_ || now - looked_at_ > silence_most / 2) beat_at_ = now;
    beats_seen_ = beats;
    looked_at_ = now;
    return now - beat_at_ > silence_most;
}

Upload SharedRounds::mode_of(const Report& report) const {
    return report.upload == Upload::run_default ? offer_.upload : report.upload;
}

bool SharedRounds::stores(const Report& report) const { return report.checkpoint && mode_of(report) != Upload::none; }

void SharedRounds::announce(const Report& report, std::uint64_t stop_report, bool only_by_agent) {
    stop_after(stop_report);
    const bool waits_for_storage = report.checkpoint && mode_of(report) == Upload::sync;
    if (waits_for_storage || only_by_agent) memory_->only_by_agent(report.index);
    const bool unstored = report.checkpoint && !stores(report);
    if (unstored || !report.checkpoint_error.empty()) memory_->without_files(report.index);
}

void SharedRounds::stop_after(std::uint64_t report) {
    if (report != 0) memory_->stop_after(report);
}

bool SharedRounds::post(std::uint64_t index, std::string_view frame, std::int64_t interval_ms) {
    return memory_->post(index, frame.substr(frame_prefix), interval_ms);
}

bool SharedRounds::arrive(std::uint64_t index, bool posted) {
    return memory_->arrive(index, posted) == ReportMemory::Arrival::notifies;
}

void SharedRounds::detach() {
    if (!memory_ || !offer_.alone || is_detached_) return;
    is_detached_ = true;
    memory_->detach();
}

}  // namespace rtrain::worker
