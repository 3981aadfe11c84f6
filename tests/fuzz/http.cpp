// Fuzzes HTTP: a request or a response in two pieces, cut anywhere, and the target of a request.
#include "daemon/net/http/http_parser.hpp"
#include "daemon/net/http/target.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view input = fuzz::text_of(data, size);
    const std::uint8_t choice = fuzz::take_choice(input);
    constexpr net::HttpParser::Kind kinds[] = {net::HttpParser::Kind::request, net::HttpParser::Kind::answer,
                                               net::HttpParser::Kind::answer_to_head};
    std::size_t body_bytes = 0;
    net::HttpParser parser(kinds[choice % 3], [&](std::string_view piece) {
        body_bytes += piece.size();
        return body_bytes < 4096;
    });
    const std::size_t cut = input.empty() ? 0 : choice * 7u % input.size();
    std::string waiting;  // bytes that the parser has not consumed are given to it again with the following ones
    for (const std::string_view piece : {input.substr(0, cut), input.substr(cut)}) {
        waiting += piece;
        while (!waiting.empty() && !parser.done() && !parser.fault()) {
            const std::size_t used = parser.put(waiting);
            fuzz::promise(used <= waiting.size(), "a parser takes no more than it was given");
            if (used == 0) break;
            waiting.erase(0, used);
        }
    }
    parser.put_end();
    fuzz::promise(!parser.done() || parser.head_done(), "a message that is done has a head");
    fuzz::promise(body_bytes <= input.size(), "a body is no longer than what came");
    const auto target = net::parse_target(parser.head().target);
    if (target) fuzz::promise(target->path.starts_with('/'), "a path begins with /");
    (void)net::parse_target(input);
    return 0;
}
