// A shipper of logs, the log of one worker, and the bytes that the head gets of it.
#pragma once

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "daemon/agent/delivery/log_shipper.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/run_until.hpp"

namespace rtrain::agent::setup {

struct LogStory {
    Folder folder;
    NodeFiles files{folder.path, folder.path + "/scratch"};
    net::Loop loop;
    std::vector<protocol::LogChunk> sent;
    bool connected = true;
    std::uint64_t share = 1 << 30;  // bound of each user
    LogShipper shipper{loop, files,
                       [this](const protocol::LogChunk& chunk) {
                           if (connected) sent.push_back(chunk);
                           return connected;
                       },
                       [this](std::uint64_t) { return share; }};
    LogStory() { REQUIRE(make_directory(files.logs(attempt_1), 0755)); }

    void write(const std::string& text) { std::ofstream(files.log(attempt_1, 0, "out"), std::ios::app) << text; }
    std::string received() const {
        std::string text;
        for (const auto& chunk : sent)
            if (chunk.stream == "out") text += chunk.bytes;
        return text;
    }
    // Acknowledges all that was sent of the rank's output, and returns its end.
    std::uint64_t acknowledge() {
        std::uint64_t end = 0;
        for (const auto& chunk : sent)
            if (chunk.stream == "out") end = std::max(end, chunk.offset + chunk.bytes.size() + chunk.lost);
        shipper.acknowledged({.attempt = {17, 1, 1}, .rank = 0, .stream = "out", .offset = end});
        return end;
    }
    bool until(const std::function<bool()>& condition) { return test::run_until(loop, condition); }
};

}  // namespace rtrain::agent::setup
