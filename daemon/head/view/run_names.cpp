// See run_names.hpp. Neither the name, nor the key, nor the user of a run ever changes.
#include "daemon/head/view/run_names.hpp"

#include <utility>

#include "storage/spec/job.hpp"
#include "storage/spec/limits.hpp"

namespace rtrain::head {
namespace {

// Workers become more and fewer while the run lives; those that ask alike stand side by side.
std::size_t bytes_of(const Run& run) {
    const GangRequest& gang = run.spec.gang;
    const std::size_t names = gang.nodes_only.size() + gang.nodes_excluded.size();
    std::size_t bytes = 1 + run.job_json.size() + names * spec::bytes_of_name, each = 0;
    for (std::size_t i = 0; i < gang.bundles.size(); ++i) {
        const Bundle& bundle = gang.bundles[i];
        if (i == 0 || bundle != gang.bundles[i - 1]) each = spec::demand_bytes(bundle.demand, bundle.selector);
        bytes += each;
    }
    return bytes;
}

}  // namespace

void RunNames::saw(const Run& run) {
    ++in_states_[run.state];
    const std::size_t bytes = bytes_of(run);
    if (const auto before = known_.find(run.id); before != known_.end()) {
        before->second.user->second += bytes - std::exchange(before->second.bytes, bytes);
        return leave(std::exchange(before->second.state, run.state));
    }
    const auto name = names_.try_emplace(run.name).first, key = keys_.try_emplace(run.submit_key).first;
    name->second.insert(run.id);
    key->second.insert(run.id);
    const auto user = bytes_of_users_.try_emplace(run.user).first;
    user->second += bytes;
    known_.emplace(run.id, Known{name, key, user, run.state, bytes});
}

void RunNames::forget(RunId run) {
    const auto entry = known_.find(run);
    if (entry == known_.end()) return;
    leave(names_, entry->second.name, run);
    leave(keys_, entry->second.key, run);
    leave(entry->second.state);
    const auto user = entry->second.user;
    if ((user->second -= entry->second.bytes) == 0) bytes_of_users_.erase(user);
    known_.erase(entry);
}

void RunNames::leave(RunState state) {
    const auto entry = in_states_.find(state);
    if (--entry->second == 0) in_states_.erase(entry);
}

void RunNames::leave(Index& index, Index::iterator place, RunId run) {
    place->second.erase(run);
    if (place->second.empty()) index.erase(place);
}

const std::set<RunId>& RunNames::in(const Index& index, const std::string& text) {
    static const std::set<RunId> none;
    const auto entry = index.find(text);
    return entry == index.end() ? none : entry->second;
}

std::size_t RunNames::bytes_of_user(const std::string& user) const {
    const auto entry = bytes_of_users_.find(user);
    return entry == bytes_of_users_.end() ? 0 : entry->second;
}

const std::set<RunId>& RunNames::named(const std::string& name) const { return in(names_, name); }
const std::set<RunId>& RunNames::submitted(const std::string& key) const { return in(keys_, key); }

}  // namespace rtrain::head
