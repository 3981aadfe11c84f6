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

// the value of `by` for a connection that the head itself tries; no node has this name
inline constexpr const char* dialled_by_head = "";
struct LeaseDial {  // a request to try a connection; its result must be passed to Leases::dialled
    std::uint64_t id = 0;
    std::string by, node;  // `by`: the node that tries the connection, or the head; `node`: the node to connect to
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

    void known(const std::string& node, std::int64_t now);  // adds a node that was in the records at the head's start
    void heard(const std::string& node, std::int64_t now);
    // Begins the node's lease. The returned step lets the head try a connection to its agent's port. `dials`: the node
    // can try connections and be connected to; false for a simulated node.
    LeaseSteps registered(const std::string& node, std::int64_t now, bool dials);
    void connected(const std::string& node, bool is);
    void forget(const std::string& node) { leases_.erase(node); }
    // records that the head itself was held up for `ms`, which does not count as silence
    void held_up(std::int64_t ms);
    // Takes the result of a tried connection: who tried it, and whether the port answered. Late and unknown results
    // have no effect.
    void dialled(std::uint64_t id, const std::string& by, bool answered);
    // returns what is due now; a node that was reported as lost is not reported again until its next message
    LeaseSteps check(std::int64_t now);
    std::int64_t heard_ms(const std::string& node) const;

  private:
    struct Doubt {
        // `asked`: who tries to connect to the node; `silent`: those of them that got no answer
        std::set<std::string> asked, silent;
        bool answered = false;
        std::int64_t since = 0;
    };
    struct Lease {
        std::int64_t heard = 0;
        bool connected = false, dials = false;
        bool proven = false;  // true: the node's port has answered the head at least once
        bool lost = false;
        std::uint64_t dial = 0;  // id of the connection attempts under way
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
