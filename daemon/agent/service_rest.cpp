// What storage would not take when an attempt ended (undelivered.hpp). It is tried again when the head is back and with
// a growing pause, by the agent after this one as well; only then the attempt's files go.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/agent/base/clocks.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/service.hpp"
#include "daemon/agent/workers/environment.hpp"
#include "storage/uri/files/removal.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t again_first_ms = 5'000, again_last_ms = 600'000, turn_ms = 100;
constexpr std::int64_t patience_ms = 14LL * 24 * 3600 * 1000;

std::string name_of(const Rest& rest) { return "attempt " + attempt_text(rest.prepare, rest.number); }

bool is_of(const Rest& rest, const protocol::Clear& order) {
    return rest.prepare.run_name == order.run_name &&
           storage::same_place(rest.prepare.storage_path, order.storage_path);
}

}  // namespace

// The mark is for the agent after this one.
void Service::keep_rest(AttemptKey key, Rest rest) {
    if (rest.since_wall_ms == 0) rest.since_wall_ms = wall_ms();
    Status kept = make_directory(files_.attempt(key), 0711);
    if (kept) kept = write_whole(files_.undelivered(key), encode_mark(rest), 0600, Durable::no);
    if (!kept) warn(name_of(rest) + ": what storage does not take is lost with this agent: " + kept.error().message);
    rests_[key] = std::move(rest);
}

// Said once.
void Service::leave_behind(AttemptKey key, Rest rest, const std::string& why) {
    warn(name_of(rest) + ": " + why + "; they are kept here and tried again");
    rest.told_of = true;
    keep_rest(key, std::move(rest));
    deliver_rest_in(key, again_first_ms);
}

// Goes with the logs where they stay. Kept before it is tried, so that a try that fails finds all of the attempt's
// files, and the head's words, which come meanwhile, are written behind the agent's own.
void Service::on(const WriteEnd& out) {
    const Held* one = held(out.attempt);
    if (!one) return;
    const auto found = rests_.find(out.attempt);
    Rest rest = found != rests_.end()
                    ? found->second
                    : Rest{.prepare = one->gear->prepare, .gear = one->gear, .number = one->number, .journal = nullptr};
    rest.end = out.end;
    keep_rest(out.attempt, std::move(rest));
    deliver_rest(out.attempt);
}

// Of an attempt that ended before this agent's start.
void Service::find_rest(const AttemptImage& image) {
    const AttemptKey key = key_of(image.prepare.attempt);
    const auto mark = read_whole(files_.undelivered(key));
    if (!mark) return;
    rests_[key] = rest_of(image, *mark, files_);
    deliver_rest(key);
}

void Service::deliver_rest_in(AttemptKey key, std::int64_t ms) {
    Rest& rest = rests_.at(key);
    loop_.cancel(rest.timer);
    rest.timer = loop_.after(ms, [this, key] { deliver_rest(key); });
}

void Service::deliver_rests() {
    std::vector<AttemptKey> keys;
    for (auto& [key, rest] : rests_) {
        rest.again_ms = again_first_ms;
        keys.push_back(key);
    }
    for (const AttemptKey key : keys) deliver_rest(key);
}

// Storage that hangs since before this agent's start takes one thread of its path's, not all.
void Service::deliver_rest(AttemptKey key) {
    const auto found = rests_.find(key);
    if (found == rests_.end() || found->second.trying) return;
    Rest& rest = found->second;
    const std::string path = rest.prepare.storage_path;
    const bool first = !rest.gear;
    if (first && !looking_at_rest_.insert(path).second) return deliver_rest_in(key, turn_ms);
    rest.trying = true;
    offload_at(
        path, [rest, facts = facts()] { return deliver(rest, facts); },
        [](const Error& error) { return Tried{.all = error, .gear = {}}; },
        [this, key, first, path, end = rest.end](const Tried& tried) {
            if (first) looking_at_rest_.erase(path);
            const auto at = rests_.find(key);
            if (at == rests_.end()) return;  // nobody wants it any more
            Rest& now = at->second;
            now.trying = false;
            if (tried.gear) now.gear = tried.gear;
            if (tried.logs) now.logs = false;
            if (!tried.all) return rest_stays(key, now, tried.all.error().message);
            if (now.end != end) return deliver_rest(key);  // the head's words came meanwhile
            if (tried.run_is_gone)
                warn(name_of(now) + ": its run is not there any more; what was to come beside it is dropped");
            else if (now.told_of)
                say(name_of(now) + ": what storage had not taken is beside its run");
            rest_is_gone(key);
        });
}

void Service::rest_stays(AttemptKey key, Rest& rest, const std::string& why) {
    if (wall_ms() - rest.since_wall_ms > patience_ms) {
        warn(name_of(rest) + ": what is not beside its run is given up: " + why);
        return rest_is_gone(key);
    }
    if (!std::exchange(rest.told_of, true))
        warn(name_of(rest) + (rest.logs ? ": its logs are" : ": its end is") + " not beside the run: " + why +
             "; kept here and tried again");
    deliver_rest_in(key, rest.again_ms);
    rest.again_ms = std::min(rest.again_ms * 2, again_last_ms);
}

void Service::rest_is_gone(AttemptKey key) {
    rests_.erase(key);
    ::unlink(files_.undelivered(key).c_str());
    if (state_.attempts.contains(key)) return;
    loop_.offload([scratch = files_.scratch(key)] { remove_tree(scratch); }, [] {});  // logs of own names were there
    if (logs_->complete(key)) on(ForgetAttempt{key});
}

// The head has all of its logs: nothing else is kept for it, unless storage lacks something.
void Service::let_go(AttemptKey key) {
    if (!state_.attempts.contains(key) && !rests_.contains(key)) on(ForgetAttempt{key});
}

// While the files of a run are removed: what is written into them meanwhile would bring them back. Not empty: why they
// cannot be removed now.
std::string Service::hold_rests(const protocol::Clear& order) {
    for (const auto& [key, rest] : rests_)
        if (is_of(rest, order) && rest.trying)
            return "what its attempt " + std::to_string(rest.number) + " left is on its way there at this moment";
    for (auto& [key, rest] : rests_)
        if (is_of(rest, order)) rest.trying = true;
    return {};
}

void Service::release_rests(const protocol::Clear& order, bool removed) {
    std::vector<AttemptKey> keys;
    for (auto& [key, rest] : rests_)
        if (is_of(rest, order)) keys.push_back(key);
    for (const AttemptKey key : keys) {
        rests_.at(key).trying = false;
        if (removed)
            rest_is_gone(key);
        else
            deliver_rest(key);
    }
}

}  // namespace rtrain::agent
