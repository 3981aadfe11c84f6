// Messages between head and agents, both ways, and news in an agent's outbox.
#include "daemon/protocol/messages.hpp"

#include "tests/fuzz/input.hpp"

using namespace rtrain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view input = fuzz::text_of(data, size);
    const std::uint8_t choice = fuzz::take_choice(input);
    const std::string text(input);
    switch (choice % 3) {
        case 0:
            if (const auto message = protocol::decode_from_agent(text)) {
                const std::string again = protocol::encode(*message);
                const auto twice = protocol::decode_from_agent(again);
                fuzz::promise(twice.ok() && protocol::encode(*twice) == again, "what an agent says is written as read");
            }
            break;
        case 1:
            if (const auto message = protocol::decode_from_head(text)) {
                const std::string again = protocol::encode(*message);
                const auto twice = protocol::decode_from_head(again);
                fuzz::promise(twice.ok() && protocol::encode(*twice) == again, "what a head says is written as read");
            }
            break;
        default:
            (void)protocol::decode_news(text);
    }
    return 0;
}
