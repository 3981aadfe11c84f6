// See templates.hpp. Each user has at most one template in preparation, because its imports take a processor from the
// workers.
#include "daemon/agent/machine/templates.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t look_again_ms = 1'000;
constexpr std::size_t kept_max = 64;  // environments, with the templates that are wanted or unfit
constexpr std::string_view standby_mark = "+standby";

using Entry = std::map<std::string, Template>::iterator;

bool takes_memory(const Template& warm_template) {
    return warm_template.phase == TemplatePhase::ready || warm_template.phase == TemplatePhase::starting;
}

std::int64_t bytes_of(const Templates& templates, const Template& warm_template) {
    return warm_template.phase == TemplatePhase::ready ? warm_template.bytes : templates.policy.memory_guess;
}

std::int64_t all_bytes(const Templates& templates) {
    std::int64_t bytes = 0;
    for (const auto& [key, warm_template] : templates.all)
        if (takes_memory(warm_template)) bytes += bytes_of(templates, warm_template);
    return bytes;
}

std::size_t count_in_memory(const Templates& templates) {
    return static_cast<std::size_t>(std::count_if(templates.all.begin(), templates.all.end(),
                                                  [](const auto& entry) { return takes_memory(entry.second); }));
}

std::size_t count_of_user(const Templates& templates, const std::string& user) {
    return static_cast<std::size_t>(std::count_if(templates.all.begin(), templates.all.end(), [&](const auto& entry) {
        return takes_memory(entry.second) && entry.second.user == user;
    }));
}

// Returns true if the user's templates have half of the places or half of the memory. A new one then replaces one of
// these.
bool has_half(const Templates& templates, const std::string& user) {
    std::int64_t bytes = 0;
    for (const auto& [key, warm_template] : templates.all)
        if (takes_memory(warm_template) && warm_template.user == user) bytes += bytes_of(templates, warm_template);
    return 2 * count_of_user(templates, user) >= templates.policy.templates_max ||
           2 * bytes >= templates.policy.memory_max;
}

// Returns the ready template to end first, except `spared`: a standby, or else the template with the earliest last use.
Entry least_needed(Templates& templates, const std::string& spared) {
    const std::string& user = templates.all.at(spared).user;
    const bool own = has_half(templates, user);
    const auto need = [](Entry at) { return std::pair(!is_standby(at->first), at->second.used_at); };
    Entry least = templates.all.end();
    for (Entry at = templates.all.begin(); at != templates.all.end(); ++at) {
        if (at->second.phase != TemplatePhase::ready || at->first == spared) continue;
        if (own && at->second.user != user) continue;
        if (least == templates.all.end() || need(at) < need(least)) least = at;
    }
    return least;
}

void end(Step& step, Entry entry) {
    step.out.push_back(EndTemplate{entry->first});
    step.state.templates.all.erase(entry);
}

void want(Step& step, Template& warm_template, std::int64_t in_ms) {
    warm_template.phase = TemplatePhase::wanted;
    warm_template.due = step.now + Duration{in_ms};
}

// Marks a template that cannot be made now. A standby is tried again later while its environment has attempts here. A
// template is tried again at its first use after that time.
void call_unfit(Step& step, const std::string& key, Template& warm_template) {
    want(step, warm_template, step.state.templates.policy.unfit_ms);
    if (!is_standby(key)) warm_template.phase = TemplatePhase::unfit;
}

// Records a failure. After the first one, the next use tries again, because it may be chance. From the second one on,
// the environment has plain starts for a while: each failure costs a template's imports and a worker's wait.
void note_failure(Step& step, Template& warm_template, const std::string& failure) {
    const WarmPolicy& policy = step.state.templates.policy;
    warm_template.failure = failure;
    warm_template.bytes = 0;
    warm_template.attempts.clear();
    warm_template.pause_ms = warm_template.failures == 0   ? 0
                             : warm_template.failures == 1 ? policy.pause_ms
                                                           : std::min(2 * warm_template.pause_ms, policy.pause_max_ms);
    ++warm_template.failures;
    warm_template.phase = warm_template.pause_ms == 0 ? TemplatePhase::known : TemplatePhase::paused;
    warm_template.due = step.now + Duration{warm_template.pause_ms == 0 ? policy.known_ms : warm_template.pause_ms};
}

void note_failure_of_standby(Step& step, Template& warm_template, const std::string& failure) {
    const std::set<AttemptKey> attempts = warm_template.attempts;
    note_failure(step, warm_template, failure);
    warm_template.attempts = attempts;
    want(step, warm_template, std::max(warm_template.pause_ms, step.state.templates.policy.standby_delay_ms));
}

// Ends a template. A standby stays wanted, and may be made again after `standby_again_ms`.
void end_for_now(Step& step, Entry entry, std::int64_t standby_again_ms) {
    if (!is_standby(entry->first)) return end(step, entry);
    step.out.push_back(EndTemplate{entry->first});
    want(step, entry->second, standby_again_ms);
}

bool has_room(const Templates& templates, std::int64_t bytes) {
    const WarmPolicy& policy = templates.policy;
    return count_in_memory(templates) < policy.templates_max && all_bytes(templates) + bytes <= policy.memory_max;
}

// Ends templates until one more of `bytes` fits; a standby ends no template. Returns false if it does not fit.
bool make_room(Step& step, const std::string& key, std::int64_t bytes) {
    Templates& templates = step.state.templates;
    if (bytes > templates.policy.memory_max) return false;
    while (!has_room(templates, bytes)) {
        const Entry least = least_needed(templates, key);
        if (least == templates.all.end() || is_standby(key)) return false;
        end_for_now(step, least, templates.policy.unfit_ms);
    }
    return true;
}

// Returns true if no attempt waits for the import, since all of its attempts have ended or are stopped.
bool is_orphan(const AgentState& state, const Template& warm_template) {
    return warm_template.phase == TemplatePhase::starting && !warm_template.ahead &&
           std::none_of(warm_template.attempts.begin(), warm_template.attempts.end(), [&](AttemptKey key) {
               const auto attempt = state.attempts.find(key);
               return attempt != state.attempts.end() && !attempt->second.stop_asked;
           });
}

Time orphan_due(const WarmPolicy& policy, const Template& warm_template) {
    return Time{warm_template.due.ms - std::max<std::int64_t>(policy.import_ms - policy.orphan_ms, 0)};
}

void forget_ended(Step& step, Template& warm_template) {
    std::erase_if(warm_template.attempts, [&](AttemptKey key) { return !step.state.attempts.contains(key); });
}

// Makes the standby of a template wanted while workers of the template run. The delay begins with the first attempt.
void want_standby(Step& step, const std::string& key, const std::set<AttemptKey>& attempts) {
    const auto [entry, is_new] = step.state.templates.all.try_emplace(standby_of(key));
    Template& standby = entry->second;
    standby.user = step.state.templates.all.at(key).user;
    forget_ended(step, standby);
    const bool begins = standby.attempts.empty() && standby.phase == TemplatePhase::wanted && standby.failures == 0;
    standby.used_at = step.now;
    standby.attempts.insert(attempts.begin(), attempts.end());
    if (is_new || begins) want(step, standby, step.state.templates.policy.standby_delay_ms);
}

// Returns the expected memory of a template. A standby takes as much as the template of its environment.
std::int64_t bytes_to_expect(const Templates& templates, const std::string& key) {
    const auto first = templates.all.find(environment_of(key));
    const bool is_known = is_standby(key) && first != templates.all.end() && first->second.bytes > 0;
    return is_known ? first->second.bytes : templates.policy.memory_guess;
}

// Returns true if the user may begin an import. If all places are taken, the oldest import ends once it has had its
// share of time. So the hanging imports of some users do not block the others.
bool takes_place(Step& step, const std::string& user) {
    Templates& templates = step.state.templates;
    std::size_t imports = 0;
    Entry oldest = templates.all.end();
    for (Entry at = templates.all.begin(); at != templates.all.end(); ++at) {
        if (at->second.phase != TemplatePhase::starting) continue;
        if (at->second.user == user) return false;
        ++imports;
        if (oldest == templates.all.end() || at->second.due < oldest->second.due) oldest = at;
    }
    if (imports < templates.policy.imports_max) return true;
    if (oldest == templates.all.end()) return false;
    const Time begun{oldest->second.due.ms - templates.policy.import_ms};
    if (step.now - begun < Duration{templates.policy.import_share_ms}) return false;
    step.out.push_back(EndTemplate{oldest->first});
    call_unfit(step, oldest->first, oldest->second);
    return true;
}

// Returns true if the user may have one more template. If the user is at the limit, a standby of the user ends for a
// new template, or else the one that was unused the longest and has no attempt here. A new standby ends no other
// template.
bool makes_place_of_user(Step& step, const std::string& key) {
    Templates& templates = step.state.templates;
    const std::string& user = templates.all.at(key).user;
    if (count_of_user(templates, user) < templates.policy.user_templates_max) return true;
    if (is_standby(key)) return false;
    const auto need = [](Entry at) { return std::pair(!is_standby(at->first), at->second.used_at); };
    Entry least = templates.all.end();
    for (Entry at = templates.all.begin(); at != templates.all.end(); ++at) {
        if (at->second.phase != TemplatePhase::ready || at->second.user != user) continue;
        forget_ended(step, at->second);
        if (!is_standby(at->first) && !at->second.attempts.empty()) continue;
        if (least == templates.all.end() || need(at) < need(least)) least = at;
    }
    if (least == templates.all.end()) return false;
    end_for_now(step, least, templates.policy.unfit_ms);
    return true;
}

void begin(Step& step, const std::string& key) {
    Templates& templates = step.state.templates;
    Template& warm_template = templates.all.at(key);
    warm_template.due = step.now + Duration{look_again_ms};
    forget_ended(step, warm_template);
    if (is_standby(key) && warm_template.attempts.empty()) return void(templates.all.erase(key));
    if (!takes_place(step, warm_template.user)) return;
    const std::int64_t bytes = bytes_to_expect(templates, key);
    const bool standby_serves = may_fork_from(templates, standby_of(key));
    if (standby_serves && !has_room(templates, bytes))
        return want(step, warm_template, templates.policy.standby_delay_ms);
    if (!makes_place_of_user(step, key)) return want(step, warm_template, templates.policy.standby_delay_ms);
    if (!make_room(step, key, bytes)) return call_unfit(step, key, warm_template);
    warm_template.phase = TemplatePhase::starting;
    warm_template.due = step.now + Duration{templates.policy.import_ms};
    step.out.push_back(StartTemplate{key});
}

// Ends a template that was not used for a while. It stays for as long again while an attempt that used it is here,
// because a worker of that attempt may fail and start again.
void end_unused(Step& step, Entry entry) {
    Template& warm_template = entry->second;
    forget_ended(step, warm_template);
    if (warm_template.attempts.empty()) return end(step, entry);
    warm_template.used_at = step.now;
}

Time wake_of(const AgentState& state, const std::string& key, const Template& warm_template) {
    const WarmPolicy& policy = state.templates.policy;
    if (is_orphan(state, warm_template)) return orphan_due(policy, warm_template);
    if (warm_template.phase != TemplatePhase::ready) return warm_template.due;
    return warm_template.used_at + Duration{is_standby(key) ? policy.standby_idle_ms : policy.idle_ms};
}

// Forgets the oldest environments of the user who has the most, so that no user displaces the environments of others.
void forget_some(Templates& templates) {
    while (templates.all.size() > kept_max) {
        std::map<std::string, std::size_t> count;
        for (const auto& [key, warm_template] : templates.all)
            count[warm_template.user] += !takes_memory(warm_template);
        const auto weight = [&](Entry at) { return std::pair(count[at->second.user], -at->second.used_at.ms); };
        Entry forgotten = templates.all.end();
        for (Entry at = templates.all.begin(); at != templates.all.end(); ++at)
            if (!takes_memory(at->second) && (forgotten == templates.all.end() || weight(at) > weight(forgotten)))
                forgotten = at;
        if (forgotten == templates.all.end()) return;
        templates.all.erase(forgotten);
    }
}

}  // namespace

std::string standby_of(const std::string& key) { return key + std::string(standby_mark); }

bool is_standby(const std::string& key) { return key.ends_with(standby_mark); }

std::string environment_of(const std::string& key) {
    return is_standby(key) ? key.substr(0, key.size() - standby_mark.size()) : key;
}

std::optional<std::string> template_to_fork(const Templates& templates, const std::string& environment) {
    for (const std::string& key : {environment, standby_of(environment)})
        if (may_fork_from(templates, key)) return key;
    return std::nullopt;
}

bool may_fork_from(const Templates& templates, const std::string& key) {
    const auto entry = templates.all.find(key);
    return entry != templates.all.end() && entry->second.phase == TemplatePhase::ready;
}

std::string why_paused(const Templates& templates, const std::string& key) {
    const auto entry = templates.all.find(key);
    if (entry == templates.all.end() || entry->second.phase != TemplatePhase::paused) return {};
    return "its templates have failed " + std::to_string(entry->second.failures) +
           " times in a row (the last: " + entry->second.failure + "), and none is made for " +
           std::to_string(entry->second.pause_ms / 1'000) + " s";
}

std::string why_user_has_no_place(const Templates& templates, const std::string& user) {
    const std::size_t count = count_of_user(templates, user);
    if (count < templates.policy.user_templates_max) return {};
    return "user " + user + " has " + std::to_string(count) +
           " templates of warm workers on this node, the most of one user; this one is made once another is unused";
}

void on(Step& step, const EnvironmentUsed& input) {
    Templates& templates = step.state.templates;
    if (!templates.policy.on) return;
    const auto [entry, is_new] = templates.all.try_emplace(input.key);
    entry->second.user = input.user;
    entry->second.ahead = false;
    for (const std::string& key : {input.key, standby_of(input.key)})
        if (const Entry used = templates.all.find(key); used != templates.all.end()) {
            used->second.used_at = step.now;
            used->second.attempts.insert(input.attempt);
        }
    if (!is_new && entry->second.phase != TemplatePhase::known) return;
    entry->second.phase = TemplatePhase::wanted;
    entry->second.due = step.now + Duration{templates.policy.delay_ms};
    if (is_new) forget_some(templates);
}

void on(Step& step, const TemplateWanted& input) {
    Templates& templates = step.state.templates;
    if (!templates.policy.on) return;
    const auto [entry, is_new] = templates.all.try_emplace(input.key);
    if (!is_new) return;
    entry->second.user = input.user;
    entry->second.ahead = true;
    entry->second.used_at = step.now;
    entry->second.due = step.now + Duration{templates.policy.delay_ms};
    forget_some(templates);
}

void on(Step& step, const TemplateReady& input) {
    Templates& templates = step.state.templates;
    const Entry entry = templates.all.find(input.key);
    if (entry == templates.all.end() || entry->second.phase != TemplatePhase::starting) return;
    Template& warm_template = entry->second;
    call_unfit(step, input.key, warm_template);  // until there is room for it
    if (!make_room(step, input.key, input.bytes)) return step.out.push_back(EndTemplate{input.key});
    warm_template.phase = TemplatePhase::ready;
    warm_template.bytes = input.bytes;
}

// Removes a ready template that has ended by itself. Its next use makes it again, because its files may have changed.
void on(Step& step, const TemplateEnded& input) {
    Templates& templates = step.state.templates;
    const Entry entry = templates.all.find(input.key);
    if (entry == templates.all.end()) return;
    if (entry->second.phase == TemplatePhase::starting) return call_unfit(step, input.key, entry->second);
    if (entry->second.phase != TemplatePhase::ready) return;
    const std::int64_t delay_ms = templates.policy.standby_delay_ms;
    if (is_standby(input.key))
        return input.failed.empty() ? want(step, entry->second, delay_ms)
                                    : note_failure_of_standby(step, entry->second, input.failed);
    if (!input.failed.empty()) return note_failure(step, entry->second, input.failed);
    templates.all.erase(entry);
    const Entry standby = templates.all.find(standby_of(input.key));  // usually made from the same files
    if (standby != templates.all.end() && takes_memory(standby->second)) end_for_now(step, standby, delay_ms);
}

void on(Step& step, const WorkerForked& input) {
    const Entry entry = step.state.templates.all.find(input.key);
    if (entry == step.state.templates.all.end() || entry->second.phase != TemplatePhase::ready) return;
    entry->second.failures = 0;
    if (!is_standby(input.key)) want_standby(step, input.key, entry->second.attempts);
}

void on(Step& step, const StartsChosen& input) {
    const LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt) return;
    add_news(step, protocol::Notice{
                       .attempt = reference(*attempt), .text = input.text, .reason = protocol::reason_of_starts});
}

void templates_time(Step& step) {
    Templates& templates = step.state.templates;
    std::vector<std::string> due;
    for (const auto& [key, warm_template] : templates.all)
        if (step.now >= wake_of(step.state, key, warm_template)) due.push_back(key);
    std::stable_partition(due.begin(), due.end(), [](const std::string& key) { return !is_standby(key); });
    for (const std::string& key : due) {
        const Entry entry = templates.all.find(key);
        if (entry == templates.all.end()) continue;  // The call for an earlier template may have ended this one.
        switch (entry->second.phase) {
            case TemplatePhase::wanted:
                begin(step, key);
                break;
            case TemplatePhase::ready:
                end_unused(step, entry);
                break;
            case TemplatePhase::paused:
                entry->second.phase = TemplatePhase::known;
                entry->second.due = step.now + Duration{templates.policy.known_ms};
                break;
            case TemplatePhase::unfit:
            case TemplatePhase::known:
                templates.all.erase(entry);
                break;
            case TemplatePhase::starting:
                if (is_orphan(step.state, entry->second)) {
                    end(step, entry);
                    break;
                }
                call_unfit(step, key, entry->second);
                step.out.push_back(EndTemplate{key});
                break;
        }
    }
}

std::optional<Time> next_template(const AgentState& state) {
    std::optional<Time> at;
    for (const auto& [key, warm_template] : state.templates.all)
        if (const Time wake = wake_of(state, key, warm_template); !at || wake < *at) at = wake;
    return at;
}

}  // namespace rtrain::agent
