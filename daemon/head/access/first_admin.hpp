// The first way in, also when those there were have all expired or were revoked: an admin token that each start makes
// anew as long as nobody has come in with it. So a first start that failed half-way, or could keep no context, locks
// nobody out.
#pragma once

#include <string>
#include <utility>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/loop/intake.hpp"

namespace rtrain::head {

class FirstAdmin {
  public:
    // `again`: by its supervisor, after a crash; nobody is there to be told of another one.
    Status open(state::SqliteJournal& journal, TokenBook& tokens, bool again);
    std::string hand_over() { return std::exchange(text_, {}); }  // made by this start; empty: none was needed
    void saw(const Caller& caller, Intake events);                // somebody was let in

  private:
    std::string unused_;  // id of the admin token that nobody has come in with yet
    std::string text_;
};

}  // namespace rtrain::head
