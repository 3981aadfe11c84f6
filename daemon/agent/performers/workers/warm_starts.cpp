// See warm_starts.hpp.
#include "daemon/agent/performers/workers/warm_starts.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/preparation/preparation.hpp"
#include "daemon/agent/warm/kept_specs.hpp"

namespace rtrain::agent {
namespace {

constexpr std::size_t specs_max = 256;
constexpr std::size_t reported_max = 1'024;
const std::string a_plain_start = "a plain start: ";

std::string list_of(const std::vector<std::uint32_t>& ranks) {
    std::string list;
    for (const std::uint32_t rank : ranks) list += (list.empty() ? "" : ",") + std::to_string(rank);
    return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

std::string kept_file(const ThisNode& node) { return node.files.data_dir + "/warm/templates.json"; }

// Returns true if the template may be made before a run uses it: its user exists with the same ids and rights as
// before.
bool may_be_ahead(const TemplateSpec& spec, const NodeFacts& facts, bool allow_setuid) {
    const auto user = user_of_order(facts, "/", spec.token_user);
    return user && *user == spec.user && spec.allow_setuid == allow_setuid;
}

}  // namespace

WarmStarts::WarmStarts(const Uses& uses) : uses_(uses), keepers_(uses.loop, uses.node.options.program, events()) {
    if (uses.node.warm.on) make_ahead();
}

KeeperEvents WarmStarts::events() {
    return {.ready =
                [this](const std::string& key, std::int64_t pid, std::int64_t bytes) {
                    unfit_.erase(key);
                    log_info("a template of warm workers is ready: pid " + std::to_string(pid) + ", " +
                             std::to_string(bytes >> 20) + " MiB");
                    ready_.insert(key);
                    keep_ready();
                    uses_.inputs.enqueue(TemplateReady{key, bytes});
                },
            .ended =
                [this](const std::string& key, const TemplateEnd& end) {
                    const bool was_ready = ready_.erase(key) > 0;
                    const std::string why = end.unfit.empty() ? end.failed : end.unfit;
                    if (was_ready && !why.empty()) warn("a template of warm workers has failed: " + why);
                    if (!was_ready && !why.empty()) log_unfit(key, why);
                    if (was_ready) keep_ready();
                    uses_.inputs.enqueue(TemplateEnded{key, end.unfit, end.failed});
                }};
}

void WarmStarts::make_ahead() {
    auto specs = std::make_shared<std::vector<TemplateSpec>>();
    uses_.loop.offload(
        [specs, facts = uses_.node.facts(), file = kept_file(uses_.node), setuid = uses_.node.options.allow_setuid] {
            *specs = kept_specs(file);
            std::erase_if(*specs, [&](const TemplateSpec& spec) { return !may_be_ahead(spec, facts, setuid); });
        },
        [this, specs] {
            for (TemplateSpec& spec : *specs) {
                const std::string key = spec.key, user = spec.token_user;
                specs_.try_emplace(key, std::move(spec));
                uses_.inputs.enqueue(TemplateWanted{key, user});
            }
        });
}

// Writes the specs of the ready templates. After a failure the next agent makes its templates after the first use.
void WarmStarts::keep_ready() {
    std::vector<const TemplateSpec*> specs;
    std::set<std::string> environments;
    for (const std::string& key : ready_) environments.insert(environment_of(key));
    for (const std::string& key : environments)
        if (const auto spec = specs_.find(key); spec != specs_.end()) specs.push_back(&spec->second);
    if (Status kept = keep_specs(kept_file(uses_.node), specs); !kept) warn(kept.error().message);
}

void WarmStarts::expect(AttemptKey key, std::size_t ranks) { chosen_[key] = {.left = ranks}; }

void WarmStarts::choose(AttemptKey key, std::uint32_t rank, const std::string& how) {
    const auto entry = chosen_.find(key);
    if (entry == chosen_.end()) return;
    if (!how.empty()) entry->second.ranks[how].push_back(rank);
    if (--entry->second.left > 0) return;
    const Chosen chosen = std::move(entry->second);
    chosen_.erase(entry);
    std::string text;
    for (const auto& [words, ranks] : chosen.ranks) text += (text.empty() ? "" : "; ") + list_of(ranks) + ": " + words;
    if (text.empty()) return;
    std::string& last = reported_[key.run];
    const bool is_repeated = last == text && text.find(a_plain_start) != text.npos;
    last = text;
    if (reported_.size() > reported_max) reported_.erase(reported_.begin());
    if (!is_repeated) uses_.inputs.enqueue(StartsChosen{key, uses_.node.name() + ": " + text});
}

void WarmStarts::log_unfit(const std::string& key, const std::string& why) {
    std::string& last = unfit_[key];
    if (last != why) warn("no template of warm workers: " + why);
    last = why;
}

void WarmStarts::start_plainly(const WorkerStart& worker, const std::string& why) {
    uses_.launcher.start(worker);
    choose(worker.attempt, worker.rank, a_plain_start + why);
}

void WarmStarts::start(const WorkerStart& worker, const TemplateChoice& choice) {
    if (!choice.why_not.empty()) return start_plainly(worker, choice.why_not);
    const std::string& environment = choice.spec.key;
    forget_specs();
    specs_[environment] = choice.spec;
    const std::optional<std::string> to_fork = template_to_fork(uses_.state.templates, environment);
    const std::string why_not = to_fork ? "" : why_no_template(choice.spec);  // before this use changes the state
    uses_.inputs.enqueue(EnvironmentUsed{environment, worker.attempt, choice.spec.token_user});
    if (!to_fork) return start_plainly(worker, why_not);
    keepers_.fork_worker(*to_fork, worker, choice.start,
                         {.answered =
                              [this, worker, key = *to_fork](const Keepers::Answer& answer) {
                                  if (answer.sentinel == 0) return start_plainly(worker, answer.why);
                                  uses_.launcher.watch_forked(worker, answer.sentinel);
                                  uses_.inputs.enqueue(WorkerForked{key});
                                  choose(worker.attempt, worker.rank, "forked from a warm template");
                              },
                          .waits = [this, worker](const std::string& why) { tell_wait(worker, why); }});
}

std::string WarmStarts::why_no_template(const TemplateSpec& spec) const {
    const Templates& templates = uses_.state.templates;
    if (const std::string paused = why_paused(templates, spec.key); !paused.empty()) return paused;
    if (const auto unfit = unfit_.find(spec.key); unfit != unfit_.end()) return unfit->second;
    const std::string no_place = why_user_has_no_place(templates, spec.token_user);
    return no_place.empty() ? "its template is not made yet" : no_place;
}

// Reports the reason of the wait. `choose` reports the start later, as for any worker.
void WarmStarts::tell_wait(const WorkerStart& worker, const std::string& why) {
    uses_.inputs.enqueue(
        StartsChosen{worker.attempt, uses_.node.name() + ": " + list_of({worker.rank}) + ": has not started: " + why});
}

void WarmStarts::start_template(const StartTemplate& out) {
    const auto of_environment = specs_.find(environment_of(out.key));
    const std::string folder = uses_.node.files.data_dir + "/warm";
    const std::string log = folder + "/" + out.key.substr(0, 16) + (is_standby(out.key) ? "-standby" : "") + ".log";
    Status begun = make_directory(folder, 0700);
    const std::string no_memory = why_no_memory(uses_.node.warm, available_memory());
    if (begun && !no_memory.empty()) begun = Error{ErrorCode::conflict, no_memory, ""};
    if (begun && of_environment != specs_.end()) {
        TemplateSpec spec = of_environment->second;
        spec.key = out.key;
        begun = keepers_.begin(spec, log);
        if (begun) return;
    }
    const std::string why = begun ? "its environment is forgotten" : begun.error().message;
    log_unfit(out.key, why);
    uses_.inputs.enqueue(TemplateEnded{out.key, why});
}

// Removes environments without a template or standby in the machine's state.
void WarmStarts::forget_specs() {
    if (specs_.size() <= specs_max) return;
    const auto& known = uses_.state.templates.all;
    const auto is_forgotten = [&](const auto& environment) {
        return !known.contains(environment.first) && !known.contains(standby_of(environment.first));
    };
    std::erase_if(specs_, is_forgotten);
    std::erase_if(unfit_, is_forgotten);
}

}  // namespace rtrain::agent
