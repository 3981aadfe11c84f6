#include "scheduler/index/tables/run_names.hpp"

namespace rtrain {

void RunNames::add(RunId id, const NamesOfRun& names) {
    if (names.is_live) live_.insert_or_assign(names.name, id);
    if (!names.submit_key.empty()) submitted_[{names.user, names.submit_key}].insert(id);
}

void RunNames::remove(RunId id, const NamesOfRun& names) {
    const auto named = live_.find(names.name);
    if (names.is_live && named != live_.end() && named->second == id) live_.erase(named);
    const auto same_key = submitted_.find({names.user, names.submit_key});
    if (same_key != submitted_.end() && same_key->second.erase(id) > 0 && same_key->second.empty())
        submitted_.erase(same_key);
}

std::optional<RunId> RunNames::live_run(const std::string& name) const {
    const auto entry = live_.find(name);
    return entry == live_.end() ? std::nullopt : std::optional(entry->second);
}

std::optional<RunId> RunNames::submitted(const std::string& user, const std::string& key) const {
    const auto entry = submitted_.find({user, key});
    return entry == submitted_.end() ? std::nullopt : std::optional(*entry->second.begin());
}

}  // namespace rtrain
