// What workers and agents of earlier releases said is understood, with all its fields.
#include <set>

#include "runtime/worker/frames/frames.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/earlier_messages.hpp"

using namespace rtrain;
using namespace rtrain::worker;

namespace {

constexpr std::size_t length_bytes = 4;  // in front of each frame

template <class Decode>
void check_understood(const test::EarlierMessage& message, Decode decode) {
    INFO(message.release << ": " << message.sender << ": " << message.text);
    const auto heard = decode(message.text);
    CHECK((heard ? "" : heard.error().message) == "");
    if (!heard) return;
    CHECK(test::lost_in(message.text, encode(*heard).substr(length_bytes)) == "");
}

}  // namespace

TEST_CASE("what workers and agents of earlier releases said to each other is understood") {
    std::set<std::string> senders;
    for (const test::EarlierMessage& message : test::earlier_messages("agent_and_worker")) {
        senders.insert(message.sender);
        if (message.sender == "worker")
            check_understood(message, decode_from_worker);
        else
            check_understood(message, decode_from_agent);
    }
    CHECK(senders == std::set<std::string>{"agent", "worker"});
}
