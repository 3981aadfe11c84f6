// Messages of earlier releases' heads and agents are decoded with all their fields.
#include <set>

#include "daemon/protocol/messages.hpp"
#include "tests/unit/earlier_messages.hpp"

using namespace rtrain;
using namespace rtrain::protocol;

constexpr auto encoded = [](const auto& message) { return encode(message); };

TEST_CASE("what head and agents of earlier releases said to each other is understood") {
    std::set<std::string> senders;
    for (const test::EarlierMessage& message : test::earlier_messages("head_and_agent")) {
        senders.insert(message.sender);
        if (message.sender == "head")
            test::check_understood(message, decode_from_head, encoded);
        else
            test::check_understood(message, decode_from_agent, encoded);
    }
    CHECK(senders == std::set<std::string>{"agent", "head"});
}

TEST_CASE("what agents of earlier releases said to each other is understood") {
    for (const test::EarlierMessage& message : test::earlier_messages("agents"))
        test::check_understood(message, decode_group, encoded);
}
