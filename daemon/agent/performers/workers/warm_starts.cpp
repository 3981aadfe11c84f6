// See warm_starts.hpp.
#include "daemon/agent/performers/workers/warm_starts.hpp"

#include <algorithm>
#include <utility>

#include "daemon/agent/base/log.hpp"

namespace rtrain::agent {
namespace {

constexpr std::size_t specs_max = 256;

std::string list_of(const std::vector<std::uint32_t>& ranks) {
    std::string list;
    for (const std::uint32_t rank : ranks) list += (list.empty() ? "" : ",") + std::to_string(rank);
    return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

KeeperEvents events_of(Inputs inputs, std::map<std::string, std::string>& unfit) {
    return {.ready =
                [inputs, &unfit](const std::string& key, std::int64_t pid, std::int64_t bytes) {
                    unfit.erase(key);
                    log_info("a template of warm workers is ready: pid " + std::to_string(pid) + ", " +
                             std::to_string(bytes >> 20) + " MiB");
                    inputs.enqueue(TemplateReady{key, bytes});
                },
            .ended =
                [inputs, &unfit](const std::string& key, const std::string& why) {
                    if (!why.empty()) warn("no template of warm workers: " + why);
                    if (!why.empty()) unfit[key] = why;
                    inputs.enqueue(TemplateEnded{key, why});
                }};
}

}  // namespace

WarmStarts::WarmStarts(const Uses& uses)
    : uses_(uses), keepers_(uses.loop, uses.node.options.program, events_of(uses.inputs, unfit_)) {}

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
    if (!text.empty()) uses_.inputs.enqueue(StartsChosen{key, uses_.node.name() + ": " + text});
}

void WarmStarts::start_plainly(const WorkerStart& worker, const std::string& why) {
    uses_.launcher.start(worker);
    choose(worker.attempt, worker.rank, "a plain start: " + why);
}

void WarmStarts::start(const WorkerStart& worker, const TemplateChoice& choice) {
    if (!choice.why_not.empty()) return start_plainly(worker, choice.why_not);
    const std::string& key = choice.spec.key;
    specs_[key] = choice.spec;
    forget_specs();
    const bool ready = may_fork_from(uses_.state.templates, key);
    uses_.inputs.enqueue(EnvironmentUsed{key, worker.attempt});
    if (!ready) {
        const auto unfit = unfit_.find(key);
        return start_plainly(worker, unfit == unfit_.end() ? "its template is not made yet" : unfit->second);
    }
    keepers_.fork_worker(key, worker, choice.start, [this, worker](const Keepers::Answer& answer) {
        if (answer.sentinel == 0) return start_plainly(worker, answer.why);
        uses_.launcher.watch_forked(worker, answer.sentinel);
        choose(worker.attempt, worker.rank, "forked from a warm template");
    });
}

void WarmStarts::start_template(const StartTemplate& out) {
    const auto spec = specs_.find(out.key);
    const std::string folder = uses_.node.files.data_dir + "/warm";
    Status begun = make_directory(folder, 0700);
    if (begun && spec != specs_.end())
        begun = keepers_.begin(spec->second, folder + "/" + out.key.substr(0, 16) + ".log");
    if (begun && spec != specs_.end()) return;
    const std::string why = begun ? "its environment is forgotten" : begun.error().message;
    warn("no template of warm workers: " + why);
    uses_.inputs.enqueue(TemplateEnded{out.key, why});
}

// Those that the machine does not know any more.
void WarmStarts::forget_specs() {
    if (specs_.size() <= specs_max) return;
    const auto& known = uses_.state.templates.all;
    std::erase_if(specs_, [&](const auto& one) { return !known.contains(one.first); });
    std::erase_if(unfit_, [&](const auto& one) { return !known.contains(one.first); });
}

}  // namespace rtrain::agent
