// Templates of warm workers as the machine sees them: which is made, which ends, which may be used. A template is known
// by its key and its user. Bounds: how many there are, their memory, and how long one stays without use. Each user has
// one import at a time. It ends once no attempt waits for it.
// While workers of a template run, a standby is made beside it where there is room: the end of a keeper ends its
// template and all its workers, and the next ones are forked from the standby at once.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "scheduler/model/ids.hpp"

namespace rtrain::agent {

// An attempt as this agent knows it: its number may change by the claim.
struct AttemptKey {
    std::uint64_t run = 0;
    std::uint32_t incarnation = 0;
    auto operator<=>(const AttemptKey&) const = default;
};

struct WarmPolicy {
    bool on = false;
    std::size_t templates_max = 8;
    std::size_t user_templates_max = 8;       // of one user
    std::int64_t memory_max = 0;              // bytes, of all together
    std::int64_t delay_ms = 3'000;            // after the first use: the run that begins has the processors first
    std::int64_t import_ms = 120'000;         // a template that is not ready by then is none
    std::int64_t orphan_ms = 30'000;          // likewise, once its attempts have ended or are stopped
    std::size_t imports_max = 4;              // at once, each of another user
    std::int64_t import_share_ms = 30'000;    // then an import gives its place to a user who waits for one
    std::int64_t idle_ms = 30 * 60 * 1'000;   // without an attempt that has used it
    std::int64_t unfit_ms = 10 * 60 * 1'000;  // until one that could not be made is tried again
    std::int64_t pause_ms = 60'000;           // after the second failure in a row; the next ones double it
    std::int64_t pause_max_ms = 30 * 60 * 1'000;
    std::int64_t standby_delay_ms = 10'000;       // after a worker was forked: attempts that end before need none
    std::int64_t standby_idle_ms = 60'000;        // without an attempt that uses its environment
    std::int64_t known_ms = 60 * 60 * 1'000;      // until the failures of one that nobody uses are forgotten
    std::int64_t memory_guess = 512 * 1'048'576;  // of one that is not ready yet
    bool operator==(const WarmPolicy&) const = default;
};

// paused: it has failed some times in a row, and no use makes it; known: the next use makes it.
enum class TemplatePhase { wanted, starting, ready, unfit, paused, known };

struct Template {
    TemplatePhase phase = TemplatePhase::wanted;
    Time due;  // wanted: is made; starting: is given up; unfit, known: is forgotten; paused: becomes known
    Time used_at;
    std::string user{};
    bool ahead = false;                  // no attempt asked for it: the agent before this one had it
    std::int64_t bytes = 0;              // of memory, once it is ready
    std::set<AttemptKey> attempts = {};  // that have used it: while one is here, the next one may come
    std::uint32_t failures = 0;          // since a worker was forked
    std::int64_t pause_ms = 0;           // the length of the pause
    std::string failure{};               // the last one
    bool operator==(const Template&) const = default;
};

struct Templates {
    WarmPolicy policy{};
    std::map<std::string, Template> all{};  // by key
    bool operator==(const Templates&) const = default;
};

std::string standby_of(const std::string& key);      // the key of the template's standby
std::string environment_of(const std::string& key);  // the key without what makes it a standby's
bool is_standby(const std::string& key);
// The key of the template that the next worker of the environment is forked from; none: no one is ready.
std::optional<std::string> template_to_fork(const Templates& templates, const std::string& environment);
bool may_fork_from(const Templates& templates, const std::string& key);
// Why no template of this environment is made for a while; empty: nothing keeps it from being made.
std::string why_paused(const Templates& templates, const std::string& key);
// Returns why no further template of the user is made now; empty if the user has fewer than one user may have.
std::string why_user_has_no_place(const Templates& templates, const std::string& user);

// ---- inputs
struct EnvironmentUsed {  // a worker of it starts, plainly or not
    std::string key{};
    AttemptKey attempt{};
    std::string user{};  // whose run it is
    bool operator==(const EnvironmentUsed&) const = default;
};
struct TemplateWanted {  // ahead of its use: the agent before this one had it
    std::string key{}, user{};
    bool operator==(const TemplateWanted&) const = default;
};
struct TemplateReady {
    std::string key{};
    std::int64_t bytes = 0;
    bool operator==(const TemplateReady&) const = default;
};
struct TemplateEnded {  // `unfit`: why it could be none; `failed`: how it broke down; both empty: as it was asked to
    std::string key{}, unfit{}, failed{};
    bool operator==(const TemplateEnded&) const = default;
};
struct WorkerForked {
    std::string key{};
    bool operator==(const WorkerForked&) const = default;
};
struct StartsChosen {  // how the workers of an attempt were started here, and why so
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
