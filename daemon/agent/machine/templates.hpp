// Decides which templates of warm workers are made, ended and used. A template has a key and a user. The policy limits
// the templates' number, their memory, and their time without use. Each user has one import at a time, which ends if no
// attempt waits for it.
// A standby is a second template of an environment, made while workers of the first one run, if there is room. A
// template's keeper process forks its workers. If the keeper ends, the template and its workers end too, and the next
// workers are forked from the standby at once.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "scheduler/model/ids.hpp"

namespace rtrain::agent {

// Identifies an attempt before its number is final: the claim of the attempt may change the number.
struct AttemptKey {
    std::uint64_t run = 0;
    std::uint32_t incarnation = 0;
    auto operator<=>(const AttemptKey&) const = default;
};

struct WarmPolicy {
    bool on = false;
    std::size_t templates_max = 8;
    std::size_t user_templates_max = 8;      // for each user
    std::int64_t memory_max = 0;             // bytes of all templates together
    std::int64_t delay_ms = 3'000;           // after the first use, since the beginning run needs the processors
    std::int64_t import_ms = 120'000;        // A template that is not ready by then is ended.
    std::int64_t orphan_ms = 30'000;         // the same limit for an import whose attempts have ended or are stopped
    std::size_t imports_max = 4;             // at the same time, each of another user
    std::int64_t import_share_ms = 30'000;   // After this time an import ends if another user waits for its place.
    std::int64_t idle_ms = 30 * 60 * 1'000;  // A template is ended after this time without an attempt that has used it.
    std::int64_t unfit_ms = 10 * 60 * 1'000;  // until a template that could not be made is tried again
    std::int64_t pause_ms = 60'000;           // after the second failure in a row; doubles with each further failure
    std::int64_t pause_max_ms = 30 * 60 * 1'000;
    std::int64_t standby_delay_ms = 10'000;  // after a worker was forked, because shorter attempts need no standby
    std::int64_t standby_idle_ms = 60'000;  // A standby is ended after this time without an attempt of its environment.
    std::int64_t known_ms = 60 * 60 * 1'000;      // until the failures of an unused template are forgotten
    std::int64_t memory_guess = 512 * 1'048'576;  // the assumed bytes of a template that is not ready yet
    bool operator==(const WarmPolicy&) const = default;
};

// paused: it failed several times in a row and no use makes it; known: the next use makes it.
enum class TemplatePhase { wanted, starting, ready, unfit, paused, known };

struct Template {
    TemplatePhase phase = TemplatePhase::wanted;
    // the next change: wanted: it is made; starting: it is given up; unfit, known: it is forgotten; paused: becomes
    // known
    Time due;
    Time used_at;
    std::string user{};
    bool ahead = false;                  // made without a request, because the agent had it before its restart
    std::int64_t bytes = 0;              // memory of a ready template
    std::set<AttemptKey> attempts = {};  // attempts that used it; while one is here, it may fork another worker
    std::uint32_t failures = 0;          // failures since it last forked a worker
    std::int64_t pause_ms = 0;           // the length of the pause
    std::string failure{};               // the last failure
    bool operator==(const Template&) const = default;
};

struct Templates {
    WarmPolicy policy{};
    std::map<std::string, Template> all{};  // by key
    bool operator==(const Templates&) const = default;
};

std::string standby_of(const std::string& key);      // Returns the key of the standby of a template.
std::string environment_of(const std::string& key);  // Returns the key without the mark of a standby.
bool is_standby(const std::string& key);
// Returns the key of the template from which the environment's next worker is forked; none if no template is ready.
std::optional<std::string> template_to_fork(const Templates& templates, const std::string& environment);
bool may_fork_from(const Templates& templates, const std::string& key);
// Returns why no template of this environment is made for a while; empty if one may be made.
std::string why_paused(const Templates& templates, const std::string& key);
// Returns why no further template of the user is made now; empty if the user is below the limit.
std::string why_user_has_no_place(const Templates& templates, const std::string& user);

// ---- inputs
struct EnvironmentUsed {  // A worker of the environment starts, from a template or plainly.
    std::string key{};
    AttemptKey attempt{};
    std::string user{};  // the owner of the worker's run
    bool operator==(const EnvironmentUsed&) const = default;
};
struct TemplateWanted {  // The agent had this template before its restart, and makes it before the first use.
    std::string key{}, user{};
    bool operator==(const TemplateWanted&) const = default;
};
struct TemplateReady {
    std::string key{};
    std::int64_t bytes = 0;
    bool operator==(const TemplateReady&) const = default;
};
// `unfit`: why it cannot be made; `failed`: how it broke down; both empty: it ended as requested
struct TemplateEnded {
    std::string key{}, unfit{}, failed{};
    bool operator==(const TemplateEnded&) const = default;
};
struct WorkerForked {
    std::string key{};
    bool operator==(const WorkerForked&) const = default;
};
struct StartsChosen {  // How the workers of an attempt were started on this node, and why.
    AttemptKey attempt{};
    std::string text{};
    bool operator==(const StartsChosen&) const = default;
};

// ---- outputs
struct StartTemplate {
    std::string key{};
    bool operator==(const StartTemplate&) const = default;
};
struct EndTemplate {
    std::string key{};
    bool operator==(const EndTemplate&) const = default;
};

}  // namespace rtrain::agent
