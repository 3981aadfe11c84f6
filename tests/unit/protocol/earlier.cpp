// What the head and agents of earlier releases said is understood, with all its fields.
#include <set>

#include "daemon/protocol/messages.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/earlier_messages.hpp"

using namespace rtrain;
using namespace rtrain::protocol;

namespace {

template <class Decode>
void check_understood(const test::EarlierMessage& message, Decode decode) {
    INFO(message.release << ": " << message.sender << ": " << message.text);
    const auto heard = decode(message.text);
    CHECK((heard ? "" : heard.error().message) == "");
    if (!heard) return;
    CHECK(test::lost_in(message.text, encode(*heard)) == "");
}

}  // namespace

TEST_CASE("what head and agents of earlier releases said to each other is understood") {
    std::set<std::string> senders;
    for (const test::EarlierMessage& message : test::earlier_messages("head_and_agent")) {
        senders.insert(message.sender);
        if (message.sender == "head")
            check_understood(message, decode_from_head);
        else
            check_understood(message, decode_from_agent);
    }
    CHECK(senders == std::set<std::string>{"agent", "head"});
}

TEST_CASE("what agents of earlier releases said to each other is understood") {
    for (const test::EarlierMessage& message : test::earlier_messages("agents"))
        check_understood(message, decode_group);
}
