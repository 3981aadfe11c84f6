// The first admin token. Each start of the head makes a new one until some person has used an admin token. It also
// makes one if all admin tokens have expired or were revoked. So a first start that failed half-way, or could not store
// a context, locks no user out.
#pragma once

#include <string>
#include <utility>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/loop/intake.hpp"

namespace rtrain::head {

class FirstAdmin {
  public:
    // `again`: the head's supervisor has restarted it after a crash. Then no token is made, because no person would see
    // it.
    Status open(state::SqliteJournal& journal, TokenBook& tokens, bool again);
    // text of the token that this start has made; empty: none was needed
    std::string hand_over() { return std::exchange(text_, {}); }
    void saw(const Caller& caller, Intake events);  // to be called for each caller that was accepted

  private:
    std::string unused_;  // id of the admin token that no caller has used yet
    std::string text_;
};

}  // namespace rtrain::head
