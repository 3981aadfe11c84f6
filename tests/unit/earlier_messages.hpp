// Messages that earlier releases sent (tests/data/messages-*.jsonl; make_messages.py there records them).
#pragma once

#include <string>
#include <vector>

#include "tests/unit/catch.hpp"

namespace rtrain::test {

struct EarlierMessage {
    std::string release, between, sender, text;
};

// Messages of every release between two parties, as "agent_and_worker". Throws where there is none.
std::vector<EarlierMessage> earlier_messages(const std::string& between);

// What of `sent` is not the same in `decoded`, both JSON; empty: every field is. A later release may say more.
std::string lost_in(const std::string& sent, const std::string& decoded);

// The message is decoded, and what is encoded of it has all of its fields.
template <class Decode, class Encode>
void check_understood(const EarlierMessage& message, Decode decode, Encode encode) {
    INFO(message.release << ": " << message.sender << ": " << message.text);
    const auto heard = decode(message.text);
    CHECK((heard ? "" : heard.error().message) == "");
    if (heard) CHECK(lost_in(message.text, encode(*heard)) == "");
}

}  // namespace rtrain::test
