// What is decided and not yet durable: turns that share one commit, and what waits for it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/head/turn.hpp"

namespace rtrain::head {

// What lies beside the records and comes often: durable with the next commit, and only then `done`.
struct Aside {
    std::vector<state::TokenRow> tokens;
    std::map<std::string, std::string> settings;
    std::function<void()> done;
};

struct Pending {
    struct Decided {
        Turn turn;
        std::vector<std::function<void()>> orders;                  // made of the state as it was decided
        std::vector<std::function<void(const Decision&)>> answers;  // one per decision, or none
    };
    std::vector<Decided> turns;
    std::vector<Aside> asides;
    std::vector<std::function<void()>> then;  // when all of it is durable and performed
    state::Batch batch;

    bool wanted() const { return !turns.empty() || !asides.empty() || !then.empty(); }  // a commit now, not by and by
    bool writes() const {
        return !batch.entries.empty() || !batch.notices.empty() || !batch.metrics.empty() || !batch.settings.empty() ||
               !batch.tokens.empty();
    }
    bool about(RunId run) const {  // does it change this run?
        for (const Decided& one : turns)
            for (const Decision& decision : one.turn.decisions)
                for (const Record& record : decision.save)
                    if (const Run* changed = std::get_if<Run>(&record); changed && changed->id == run) return true;
        return false;
    }
};

}  // namespace rtrain::head
