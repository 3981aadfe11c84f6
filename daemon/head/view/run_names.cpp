// See run_names.hpp. The name and the key of a run never change.
#include "daemon/head/view/run_names.hpp"

#include <utility>

namespace rtrain::head {
void RunNames::saw(const Run& run) {
    ++in_states_[run.state];
    const bool live = !terminal(run.state);
    if (const auto before = known_.find(run.id); before != known_.end()) {
        OfUser& of_user = before->second.user->second;
        if (live) ++of_user.live;
        if (!terminal(before->second.state)) --of_user.live;
        return leave(std::exchange(before->second.state, run.state));
    }
    const auto name = names_.try_emplace(run.name).first, key = keys_.try_emplace(run.submit_key).first;
    name->second.insert(run.id);
    key->second.insert(run.id);
    const auto user = of_users_.try_emplace(run.user).first;
    ++user->second.runs;
    if (live) ++user->second.live;
    known_.emplace(run.id, Known{name, key, user, run.state});
}

void RunNames::forget(RunId run) {
    const auto entry = known_.find(run);
    if (entry == known_.end()) return;
    leave(names_, entry->second.name, run);
    leave(keys_, entry->second.key, run);
    leave(entry->second.state);
    const auto user = entry->second.user;
    if (!terminal(entry->second.state)) --user->second.live;
    if (--user->second.runs == 0) of_users_.erase(user);
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

std::size_t RunNames::live_runs_of(const std::string& user) const {
    const auto entry = of_users_.find(user);
    return entry == of_users_.end() ? 0 : entry->second.live;
}

const std::set<RunId>& RunNames::named(const std::string& name) const { return in(names_, name); }
const std::set<RunId>& RunNames::submitted(const std::string& key) const { return in(keys_, key); }

}  // namespace rtrain::head
