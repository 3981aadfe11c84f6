// PURE: decides which nodes are lost. A broken connection alone is no loss; silence for node_timeout is. A machine that
// has failed is found sooner. When a node was silent for `doubt_ms`, the head and two neighbours connect to its agent's
// port. If none of them gets a connection or a refusal within `dial_ms`, the machine is lost. The machine of a killed
// agent refuses the connection. A node that is cut off from the head alone answers its neighbours. For both
// node_timeout decides.
//  message ─ silent for doubt_ms ─► doubted ─┬─ message: doubt is dropped
//                                            ├─ one was answered, or an answer is missing: doubted again a moment later
//                                            └─ none was answered: lost
// The head connects to a node when it registers. A port that never answered the head proves nothing (NAT, a firewall).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rtrain::head {

struct LeaseRules {
    std::int64_t node_timeout_ms = 10'000;
    std::int64_t doubt_ms = 1'500, dial_ms = 1'500;
    std::size_t neighbours = 2;
};

inline constexpr const char* dialled_by_head = "";  // no node has this name
struct LeaseDial {                                  // a request to connect, whose result is passed to Leases::dialled
    std::uint64_t id = 0;
    std::string by, node;  // `by`: a node, or the head
    bool operator==(const LeaseDial&) const = default;
};
struct LeaseLost {
    std::string node, why;
    std::int64_t silent_ms = 0;
    bool operator==(const LeaseLost&) const = default;
};
struct LeaseSteps {
    std::vector<LeaseDial> dial;
    std::vector<LeaseLost> lost;
};

class Leases {
  public:
    explicit Leases(LeaseRules rules) : rules_(rules) {}

    void known(const std::string& node, std::int64_t now);  // a node in the records at the head's start
    void heard(const std::string& node, std::int64_t now);
    // The head must connect to its agent's port. `dials`: it can connect to others, and be connected to; a simulated
    // node cannot.
    LeaseSteps registered(const std::string& node, std::int64_t now, bool dials);
    void connected(const std::string& node, bool is);
    void forget(const std::string& node) { leases_.erase(node); }
    void held_up(std::int64_t ms);  // the head itself was held up, so the nodes' silence does not count
    // The result of a connection attempt: its origin, and whether the port answered. Late and unknown ones have no
    // effect.
    void dialled(std::uint64_t id, const std::string& by, bool answered);
    LeaseSteps check(std::int64_t now);  // a node reported as lost is forgotten until its next message
    std::int64_t heard_ms(const std::string& node) const;

  private:
    struct Doubt {
        std::set<std::string> asked, silent;  // origins of the attempts, and those without an answer
        bool answered = false;
        std::int64_t since = 0;
    };
    struct Lease {
        std::int64_t heard = 0;
        bool connected = false, dials = false;
        bool proven = false;  // its port has answered the head
        bool lost = false;
        std::uint64_t dial = 0;  // id of the attempt under way: a proof, or a doubt
        std::optional<Doubt> doubt;
    };
    void begin_doubt(const std::string& node, Lease& lease, std::int64_t now, LeaseSteps& steps);
    void judge(const std::string& node, Lease& lease, std::int64_t now, LeaseSteps& steps);
    std::vector<std::string> neighbours_of(const std::string& node, std::int64_t now) const;

    LeaseRules rules_;
    std::map<std::string, Lease> leases_;
    std::uint64_t next_dial_ = 1;
};

}  // namespace rtrain::head
