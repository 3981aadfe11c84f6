// Computes the correct answers of placement by trying every assignment. Written from the contract only: it uses no code
// of the product, not even its amounts. A tick is 1/10,000, in an int64.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace oracle {

constexpr std::int64_t unit = 10'000;
constexpr std::size_t kinds = 3;  // resources that are sums; GPUs are devices
inline const std::array<std::string, kinds> kind_names{"CPU", "memory", "licence"};
using Sums = std::array<std::int64_t, kinds>;

struct Node {
    std::string id;
    Sums has{};
    int gpus = 0;
    std::map<std::string, std::string> labels;
    std::string state = "ready";
};
struct Held {  // by another job, or by the asking gang itself
    std::size_t node = 0;
    Sums what{};
    std::map<int, std::int64_t> gpu;
    bool own = false;
};
struct Condition {
    std::string key;
    std::vector<std::string> values;
    bool negated = false;
};
struct Bundle {
    Sums what{};
    std::int64_t gpu = 0;
    std::vector<Condition> selector;
};
enum class Strategy { pack, spread, strict_pack, strict_spread };
struct Case {
    std::string id;
    std::vector<Node> nodes;
    std::vector<Held> held;
    Strategy strategy = Strategy::pack;
    std::vector<Bundle> bundles;
    std::string topology;                       // empty: none
    std::map<std::size_t, std::size_t> placed;  // bundle -> node
};

struct Best {
    int nodes = 0;     // PACK: the fewest that host something; SPREAD: the most
    int breaks = 0;    // with equal nodes, the fewest changes of node between neighbouring ranks
    int heaviest = 0;  // SPREAD: of those, the smallest number on the fullest node
    std::optional<int>
        without_gpus;  // PACK of bundles that need no GPU: the fewest nodes when only GPU-less ones count
};
struct Expected {
    std::string verdict;
    std::optional<Best> best;  // feasible now
};

bool empty(const Bundle& bundle);
bool same(const Bundle& a, const Bundle& b);
bool suits(const Bundle& bundle, const Node& node);  // the selector
bool alike(const Case& question);                    // all missing bundles that need room
struct Room {
    Sums free{};
    std::vector<std::int64_t> gpus;
};
enum class When { now, later };  // later: other jobs have ended
std::vector<Room> rooms(const Case& question, When when);
Expected judge(const Case& question);

Case make_case(std::uint64_t seed);         // cases.cpp: any seed is a small case
std::string line_of(const Case& question);  // as `rtrain plan --cases` reads it
std::string fault(const Case& question, const Expected& expected,
                  const std::string& answer);  // verify.cpp; empty: none

}  // namespace oracle
