// Fuzzes messages of a worker, or of a stranger, over the agent's Unix socket, and the worker's side of it.
#include "base/base64.hpp"
#include "runtime/worker/frames/frames.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view input = fuzz::text_of(data, size);
    const std::uint8_t choice = fuzz::take_choice(input);
    const std::size_t cut = input.empty() ? 0 : choice * 5u % input.size();
    worker::FrameReader reader;
    bool broken = false;
    for (const std::string_view piece : {input.substr(0, cut), input.substr(cut)}) {
        if (broken) break;
        reader.add(piece);
        for (;;) {
            const auto body = reader.next();
            broken = !body.ok();
            if (broken || !*body) break;
            (void)worker::decode_from_agent(**body);
            const auto frame = worker::decode_from_worker(**body);
            if (!frame) continue;
            worker::FrameReader again;
            again.add(worker::encode(*frame));
            const auto same = again.next();
            fuzz::promise(same.ok() && *same && worker::decode_from_worker(**same).ok(), "a frame is written as read");
        }
    }
    (void)worker::decode_from_worker(input);
    if (const auto bytes = storage::base64_decode(input))
        fuzz::promise(storage::base64_decode(storage::base64_encode(*bytes)) == bytes, "base64 goes there and back");
    return 0;
}
