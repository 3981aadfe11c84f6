// The use of a node, a rank or the cluster, as the head keeps it: small charts, each with its table.
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
type Stretches = Record<string, { word: string; ms: number }>;
const stretches: Stretches = {
  "": { word: "hour", ms: hour_ms }, "6h": { word: "6 hours", ms: 6 * hour_ms }, "24h": { word: "day", ms: 24 * hour_ms },
};
// The head keeps the use of the cluster longer than that of nodes.
const long_stretches: Stretches = { ...stretches, "7d": { word: "week", ms: 7 * 24 * hour_ms }, "30d": { word: "30 days", ms: 30 * 24 * hour_ms } };

const stretchIn = (some: Stretches, last: string | null) => some[last ?? ""] ?? some[""]!;
export const stretchOf = (last: string | null) => stretchIn(stretches, last);

// `path`: the address of the node, rank or cluster; /history is appended. `long`: it is kept for months.
export function Usage({ path, title, aside, spans = [], long = false }: { path: string; title: string; aside?: ComponentChildren; spans?: readonly Span[]; long?: boolean }) {
  const { query } = useRoute();
  const choices = long ? long_stretches : stretches;
  const stretch = stretchIn(choices, query.get("last"));
  const read = useLoaded(async (signal) => {
    const { keys = [], last } = await call<UsageHistory>(`${path}/history`, { signal });
    const from = Math.max(0, last * 1000 - stretch.ms);
    const answers = await severally(keys, (key) => call<UsageHistory>(`${path}/history?key=${encodeURIComponent(key)}&from=${from}&points=${points_most}`, { signal }));
    return new Map(keys.map((key, at) => [key, answers[at]!]));
  }, [path, stretch.ms], again_ms);
  const charts = useMemo(() => usageCharts(keysShown(read.value ?? new Map())), [read.value]);
  return (
    <Panel title={title} wide aside={
      <>
        {aside}
        <label class="field"><span>Last</span>
          <select value={query.get("last") ?? ""} onChange={(event) => setQuery({ last: event.currentTarget.value })}>
            {Object.entries(choices).map(([value, { word }]) => <option key={value} value={value}>{word}</option>)}
          </select></label>
      </>
    }>
      {read.problem && (read.problem.status === 404 ? <Quiet>This head keeps nothing of what was used.</Quiet> : <ProblemNote problem={read.problem} />)}
      {!read.value && !read.problem && <Quiet>Loading.</Quiet>}
      {read.value?.size === 0 && <Quiet>Nothing was kept so far.</Quiet>}
      {read.value && <div class="charts small">{charts.map((chart) => <UsageOf key={chart.title} chart={chart} histories={read.value!} spans={spans} />)}</div>}
    </Panel>
  );
}

// Leaves out the GPUs of a cluster that had none.
function keysShown(histories: ReadonlyMap<string, UsageHistory>): string[] {
  const gpus = histories.get("gpus")?.points?.max ?? [];
  return [...histories.keys()].filter((key) => !key.startsWith("gpus") || gpus.some((count) => count > 0));
}

function UsageOf({ chart, histories, spans }: { chart: UsageChart; histories: ReadonlyMap<string, UsageHistory>; spans: readonly Span[] }) {
  const lines = useMemo(() => chart.lines.map(({ key, name }, place) => ({ name, series: usageSeries(histories.get(key)!), place })), [chart, histories]);
  return <Chart title={chart.title} lines={lines} axis="time" height={130} spans={spans} sync="usage" format={chart.format} floor={0} top={chart.top} />;
}
