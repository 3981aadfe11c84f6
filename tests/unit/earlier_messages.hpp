// Messages that earlier releases sent (tests/data/messages-*.jsonl; make_messages.py there records them).
#pragma once

#include <string>
#include <vector>

#include "tests/unit/catch.hpp"

namespace rtrain::test {

struct EarlierMessage {
    std::string release, between, sender, text;
};

// Returns the messages of every release between two parties, such as "agent_and_worker". Throws if there are none.
std::vector<EarlierMessage> earlier_messages(const std::string& between);

// Returns the fields of `sent` that `decoded` lacks or changes, both as JSON; empty if there are none. A later release
// may add fields.
std::string lost_in(const std::string& sent, const std::string& decoded);

// Decodes the message and encodes it again. Fails if a field is lost or changed.
template <class Decode, class Encode>
void check_understood(const EarlierMessage& message, Decode decode, Encode encode) {
    INFO(message.release << ": " << message.sender << ": " << message.text);
    const auto heard = decode(message.text);
    CHECK((heard ? "" : heard.error().message) == "");
    if (heard) CHECK(lost_in(message.text, encode(*heard)) == "");
}

}  // namespace rtrain::test
