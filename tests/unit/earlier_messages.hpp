// Messages that earlier releases sent (tests/data/messages-*.jsonl; make_messages.py there records them).
#pragma once

#include <string>
#include <vector>

namespace rtrain::test {

struct EarlierMessage {
    std::string release, between, sender, text;
};

// Messages of every release between two parties, as "agent_and_worker". Throws where there is none.
std::vector<EarlierMessage> earlier_messages(const std::string& between);

// What of `sent` is not the same in `decoded`, both JSON; empty: every field is. A later release may say more.
std::string lost_in(const std::string& sent, const std::string& decoded);

}  // namespace rtrain::test
