// What storage would not take when an attempt ended: its last metrics, its logs, its end. They are tried again when the
// head is back and with a growing pause, by the agent after this one as well; only then the attempt's files go.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "daemon/agent/environment.hpp"
#include "daemon/agent/named_logs.hpp"
#include "daemon/agent/say.hpp"
#include "daemon/agent/service.hpp"
#include "daemon/agent/uploads.hpp"
#include "storage/uri/removal.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t again_first_ms = 5'000, again_last_ms = 600'000;
constexpr std::int64_t patience_ms = 14LL * 24 * 3600 * 1000;

}  // namespace

// Said once; the mark is for the agent after this one.
void Service::leave_behind(AttemptKey key, Rest rest, const std::string& why) {
    warn("attempt " + attempt_text(rest.gear->prepare, rest.number) + ": " + why +
         "; they are kept here and tried again");
    rest.since_wall_ms = wall_ms();
    const std::string mark = files_.undelivered(key);
    if (Status kept = write_whole(mark, std::to_string(rest.since_wall_ms), 0600, Durable::no); !kept)
        warn("only as long as this agent lives: " + kept.error().message);
    rests_[key] = std::move(rest);
    deliver_rest_in(key, again_first_ms);
}

// Of an attempt that ended before this agent's start.
void Service::find_rest(const AttemptImage& image) {
    const AttemptKey key = key_of(image.prepare.attempt);
    const auto mark = read_whole(files_.undelivered(key));
    if (!mark) return;
    auto geared = gear_of_ended(facts(), image.prepare);
    if (const auto* why = std::get_if<Trouble>(&geared)) {
        warn("logs of attempt " + attempt_text(image.prepare, image.number) + " stay on this node: " + why->why);
        return;
    }
    rests_[key] = {.gear = std::get<Gear>(geared),
                   .number = image.number,
                   .journal = std::make_shared<Journal>(files_.journal(key)),
                   .logs = true,
                   .since_wall_ms = std::strtoll(mark->c_str(), nullptr, 10)};
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

void Service::deliver_rest(AttemptKey key) {
    const auto found = rests_.find(key);
    if (found == rests_.end() || found->second.trying) return;
    Rest& rest = found->second;
    rest.trying = true;
    struct Tried {
        Status all{Done{}};
        bool logs = false;
    };
    offload(
        [gear = rest.gear, number = rest.number, journal = rest.journal, logs = rest.logs, end = rest.end,
         facts = facts()] {
            Tried tried;
            if (journal) tried.all = deliver(*journal, *gear, number);
            if (tried.all && logs) tried.all = copy_logs(*gear, facts, number);
            tried.logs = logs && tried.all;
            if (tried.all && end) tried.all = storage::write_end(*gear->store, gear->prepare.run_name, *end);
            return tried;
        },
        [](const Error& error) { return Tried{.all = error}; },
        [this, key, end = rest.end](const Tried& tried) {
            const auto at = rests_.find(key);
            if (at == rests_.end()) return;  // nobody wants it any more
            Rest& now = at->second;
            now.trying = false;
            if (tried.logs) now.logs = false;
            if (!tried.all) return rest_stays(key, now, tried.all.error().message);
            if (now.end != end) return deliver_rest(key);  // the head's words came meanwhile
            say("attempt " + attempt_text(now.gear->prepare, now.number) +
                ": its last metrics and logs are beside its run");
            rest_is_gone(key);
        });
}

void Service::rest_stays(AttemptKey key, Rest& rest, const std::string& why) {
    if (wall_ms() - rest.since_wall_ms > patience_ms) {
        warn("attempt " + attempt_text(rest.gear->prepare, rest.number) +
             ": its last metrics and logs are given up: " + why);
        return rest_is_gone(key);
    }
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

// Before the files of a run are removed: what is written into them later would bring them back. Not empty: why they
// cannot be now.
std::string Service::drop_rests(const protocol::Clear& order) {
    const auto meant = [&](const Rest& rest) {
        return rest.gear->prepare.run_name == order.run_name &&
               storage::same_place(rest.gear->prepare.storage_path, order.storage_path);
    };
    for (const auto& [key, rest] : rests_)
        if (meant(rest) && rest.trying)
            return "logs of its attempt " + std::to_string(rest.number) + " are on their way there at this moment";
    std::erase_if(rests_, [&](const auto& one) {
        if (meant(one.second)) ::unlink(files_.undelivered(one.first).c_str());
        return meant(one.second);
    });
    return {};
}

}  // namespace rtrain::agent
