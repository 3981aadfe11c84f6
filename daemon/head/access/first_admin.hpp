// The first admin token. Each start makes a new one until someone has used one, also if all earlier admin tokens have
// expired or were revoked. So a first start that failed half-way, or could not store a context, locks no user out.
#pragma once

#include <string>
#include <utility>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/loop/intake.hpp"

namespace rtrain::head {

class FirstAdmin {
  public:
    // `again`: restarted by its supervisor after a crash, when no person would see another token.
    Status open(state::SqliteJournal& journal, TokenBook& tokens, bool again);
    std::string hand_over() { return std::exchange(text_, {}); }  // made by this start; empty: none was needed
    void saw(const Caller& caller, Intake events);                // called for each accepted caller

  private:
    std::string unused_;  // id of the admin token that no caller has used yet
    std::string text_;
};

}  // namespace rtrain::head
