// Compares random small cases with the oracle: `test_placement_oracle [--cases N] [--seed FIRST]`. A disagreement is
// printed as a line for `rtrain plan --cases -`, with the difference. The answer must not depend on the nodes' order.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cmd/plan/plan_case.hpp"
#include "tests/oracle/oracle.hpp"

namespace {

oracle::Case reversed(oracle::Case question) {
    const std::size_t last = question.nodes.size() - 1;
    std::reverse(question.nodes.begin(), question.nodes.end());
    for (auto& held : question.held) held.node = last - held.node;
    for (auto& [bundle, node] : question.placed) node = last - node;
    return question;
}

std::string placement_of(const std::string& answer) {
    const auto from = answer.find("\"placement\""), to = answer.find("\"proved\"");
    return from == answer.npos ? "" : answer.substr(from, to - from);
}

std::string fault_of(std::uint64_t seed, std::map<std::string, int>& verdicts) {
    const oracle::Case question = oracle::make_case(seed);
    const oracle::Expected expected = oracle::judge(question);
    ++verdicts[expected.verdict];
    const std::string answer = rtrain::cmd::answer_line(oracle::line_of(question));
    std::string wrong = oracle::fault(question, expected, answer);
    if (wrong.empty() && seed % 4 == 0 &&
        placement_of(rtrain::cmd::answer_line(oracle::line_of(reversed(question)))) != placement_of(answer))
        wrong = "another answer for the same nodes in another order";
    if (!wrong.empty())
        std::printf("%s\n  -> %s\n  # %s\n", oracle::line_of(question).c_str(), answer.c_str(), wrong.c_str());
    return wrong;
}

}  // namespace

int main(int argc, char** argv) {
    std::uint64_t cases = 100'000, first = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::strcmp(argv[i], "--cases") == 0) cases = std::strtoull(argv[i + 1], nullptr, 10);
        if (std::strcmp(argv[i], "--seed") == 0) first = std::strtoull(argv[i + 1], nullptr, 10);
    }
    std::map<std::string, int> verdicts, faults;
    int wrong = 0;
    for (std::uint64_t seed = first; seed < first + cases && wrong < 20; ++seed) {
        const std::string fault = fault_of(seed, verdicts);
        wrong += !fault.empty();
        ++faults[fault];
    }
    for (const auto& [verdict, count] : verdicts) std::printf("%-14s %d\n", verdict.c_str(), count);
    for (const auto& [fault, count] : faults)
        if (!fault.empty()) std::printf("WRONG %5d  %s\n", count, fault.c_str());
    return wrong == 0 ? 0 : 1;
}
