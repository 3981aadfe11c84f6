// The use of a node or a rank in the last day, as the head keeps it: small charts, each with its table.
import { useMemo } from "preact/hooks";
import { call } from "../api/client.ts";
import { useLoaded } from "../api/hooks.ts";
import { severally } from "../api/several.ts";
import type { UsageHistory } from "../api/types.ts";
import { Chart } from "../parts/chart.tsx";
import { Panel, ProblemNote, Quiet } from "../parts/panel.tsx";
import type { Span } from "../data/series.ts";
import { type UsageChart, usageCharts, usageSeries } from "../data/usage.ts";
import { setQuery, useRoute } from "../router.ts";
import type { ComponentChildren } from "preact";

const points_most = 240;  // a small chart has few more columns
const again_ms = 15_000;
const hour_ms = 3_600_000;
const stretches: Record<string, { word: string; ms: number }> = {
  "": { word: "hour", ms: hour_ms }, "6h": { word: "6 hours", ms: 6 * hour_ms }, "24h": { word: "day", ms: 24 * hour_ms },
};

export const stretchOf = (last: string | null) => stretches[last ?? ""] ?? stretches[""]!;

// `path`: the address of the node or rank; /history is appended.
export function Usage({ path, title, aside, spans = [] }: { path: string; title: string; aside?: ComponentChildren; spans?: readonly Span[] }) {
  const { query } = useRoute();
  const stretch = stretchOf(query.get("last"));
  const read = useLoaded(async (signal) => {
    const { keys = [], last } = await call<UsageHistory>(`${path}/history`, { signal });
    const from = Math.max(0, last * 1000 - stretch.ms);
    const answers = await severally(keys, (key) => call<UsageHistory>(`${path}/history?key=${encodeURIComponent(key)}&from=${from}&points=${points_most}`, { signal }));
    return new Map(keys.map((key, at) => [key, answers[at]!]));
  }, [path, stretch.ms], again_ms);
  const charts = useMemo(() => usageCharts([...(read.value?.keys() ?? [])]), [read.value]);
  return (
    <Panel title={title} wide aside={
      <>
        {aside}
        <label class="field"><span>Last</span>
          <select value={query.get("last") ?? ""} onChange={(event) => setQuery({ last: event.currentTarget.value })}>
            {Object.entries(stretches).map(([value, { word }]) => <option key={value} value={value}>{word}</option>)}
          </select></label>
      </>
    }>
      {read.problem && (read.problem.status === 404 ? <Quiet>This head keeps nothing of what was used.</Quiet> : <ProblemNote problem={read.problem} />)}
      {!read.value && !read.problem && <Quiet>Loading.</Quiet>}
      {read.value?.size === 0 && <Quiet>Nothing was kept in the last day.</Quiet>}
      {read.value && <div class="charts small">{charts.map((one) => <UsageOf key={one.title} chart={one} histories={read.value!} spans={spans} />)}</div>}
    </Panel>
  );
}

function UsageOf({ chart, histories, spans }: { chart: UsageChart; histories: ReadonlyMap<string, UsageHistory>; spans: readonly Span[] }) {
  const lines = useMemo(() => chart.lines.map(({ key, name }, place) => ({ name, series: usageSeries(histories.get(key)!), place })), [chart, histories]);
  return <Chart title={chart.title} lines={lines} axis="time" height={130} spans={spans} sync="usage" format={chart.format} floor={0} top={chart.top} />;
}
