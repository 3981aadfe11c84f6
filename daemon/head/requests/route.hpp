// A route of the API: the callers who may use it, and its handler. A handler gets the request and those parts of the
// head that its parameters name. No handler gets the whole head.
#pragma once

#include <tuple>
#include <type_traits>

#include "daemon/head/base/options.hpp"
#include "daemon/head/openapi/described_routes.hpp"
#include "daemon/head/requests/exchange.hpp"

namespace rtrain::head {

struct Identity;
struct HeadFacts;
struct HeadStop;
class Autoscaler;
class Blobs;
class BrowserSessions;
class ChartHistory;
class Credentials;
class Feeds;
class LogAnswers;
class LogIntake;
class MetricsPage;
class Ownership;
class PartUploads;
class Planner;
class Revocations;
class RunLocks;
class Sessions;
class StoredFiles;
class Submissions;
class UserBytes;

// True for parts that no handler may change: a handler with a non-const parameter of that type does not compile.
template <class Part>
inline constexpr bool read_only =
    std::is_same_v<Part, HeadOptions> || std::is_same_v<Part, HeadFacts> || std::is_same_v<Part, HeadStop> ||
    std::is_same_v<Part, Identity> || std::is_same_v<Part, Ownership>;

// The parts that handlers may get beside the request, each once.
class Parts {
  public:
    template <class... Part>
    explicit Parts(Part&... parts) : all_(&parts...) {}
    template <class Part>
    Part& get() const {
        using Plain = std::remove_const_t<Part>;
        if constexpr (read_only<Plain>)
            return *std::get<const Plain*>(all_);
        else
            return *std::get<Plain*>(all_);
    }

  private:
    std::tuple<const HeadOptions*, const HeadFacts*, const HeadStop*, state::SqliteJournal*, const Identity*,
               TokenBook*, Revocations*, const Ownership*, Submissions*, Blobs*, PartUploads*, ChartHistory*,
               LogIntake*, LogAnswers*, Feeds*, Planner*, Sessions*, Autoscaler*, MetricsPage*, BrowserSessions*,
               Credentials*, UserBytes*, RunLocks*, StoredFiles*>
        all_;
};

// `with<handler>` answers a request by `handler(exchange, part...)`.
template <auto handler>
struct With;
template <class... Part, void (*handler)(Exchange&, Part&...)>
struct With<handler> {
    static void answer(Exchange& exchange, const Parts& parts) { handler(exchange, parts.get<Part>()...); }
};
template <auto handler>
inline constexpr void (*with)(Exchange&, const Parts&) = &With<handler>::answer;

struct Route : DescribedRoute {
    void (*answer)(Exchange&, const Parts&);
};

}  // namespace rtrain::head
