// See run_names.hpp. Neither the name nor the key of a run ever changes.
#include "daemon/head/view/run_names.hpp"

#include <utility>

namespace rtrain::head {
void RunNames::saw(const Run& run) {
    ++in_states_[run.state];
    if (const auto before = known_.find(run.id); before != known_.end())
        return leave(std::exchange(before->second.state, run.state));
    const auto name = names_.try_emplace(run.name).first, key = keys_.try_emplace(run.submit_key).first;
    name->second.insert(run.id);
    key->second.insert(run.id);
    known_.emplace(run.id, Known{name, key, run.state});
}

void RunNames::forget(RunId run) {
    const auto entry = known_.find(run);
    if (entry == known_.end()) return;
    leave(names_, entry->second.name, run);
    leave(keys_, entry->second.key, run);
    leave(entry->second.state);
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

const std::set<RunId>& RunNames::named(const std::string& name) const { return in(names_, name); }
const std::set<RunId>& RunNames::submitted(const std::string& key) const { return in(keys_, key); }

}  // namespace rtrain::head
