// See goodput_json.hpp.
#include "daemon/head/view/goodput_json.hpp"

#include "daemon/head/view/records_json.hpp"

namespace rtrain::head {

using nlohmann::json;

json goodput_json(const View& view, const Run& run) {
    const TimeByCause time = time_by_cause(view.cluster, run, view.clock.now(), view.waits.all());
    json causes = json::object();
    for (const TimeCause cause : time_causes) causes[to_text(cause)] = time[cause].ms;
    return {{"wall_ms", time.wall().ms}, {"ratio", time.goodput()}, {"causes_ms", std::move(causes)}};
}

json advice_json(const View& view, const Run& run) {
    json out = json::array();
    for (const Advice& suggestion : advice(view.waits.facts(view.cluster, run)))
        out.push_back({{"kind", to_text(suggestion.kind)}, {"text", suggestion.text}});
    return out;
}

json report_wait_json(const View& view, const Run& run) {
    const auto report = view.waits.facts(view.cluster, run).in_report;
    if (!report) return nullptr;
    return {{"missing_ranks", report->missing},
            {"waiting_ranks", report->waiting},
            {"since", time_json(view, {view.clock.now().ms - report->lasts.ms})}};
}

}  // namespace rtrain::head
