// Messages of workers and agents of earlier releases are decoded with all their fields.
#include <set>

#include "runtime/worker/frames/frames.hpp"
#include "tests/unit/earlier_messages.hpp"

using namespace rtrain;
using namespace rtrain::worker;

namespace {

// Returns the message as on the wire, without the length before its frame.
template <class Message>
std::string body_of(const Message& message) {
    constexpr std::size_t length_bytes = 4;
    return encode(message).substr(length_bytes);
}

}  // namespace

TEST_CASE("what workers and agents of earlier releases said to each other is understood") {
    std::set<std::string> senders;
    for (const test::EarlierMessage& message : test::earlier_messages("agent_and_worker")) {
        senders.insert(message.sender);
        if (message.sender == "worker")
            test::check_understood(message, decode_from_worker, body_of<FromWorker>);
        else
            test::check_understood(message, decode_from_agent, body_of<FromAgent>);
    }
    CHECK(senders == std::set<std::string>{"agent", "worker"});
}
