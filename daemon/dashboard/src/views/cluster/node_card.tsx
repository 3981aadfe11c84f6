// One node: its state, its GPUs and their holders, CPU and memory.
import type { GpuDevice, NodeRecord } from "../../api/types.ts";
import { Bar } from "../../parts/bar.tsx";
import { placeOfName } from "../../parts/colours.ts";
import { State } from "../../parts/state.tsx";
import { seriesColour } from "../../text/series_colour.ts";
import { Words } from "../../parts/words.tsx";
import { gpuMemoryRatio, gpuUse, holdersOf, allocatedOf, isHeld, memoryRatio, share, stateOf } from "../../data/nodes.ts";
import { address } from "../../router.ts";
import { bytes, bytesOf, percent, plural } from "../../text/units.ts";

export function deviceText(device: GpuDevice): string {
  const facts = [`GPU ${device.index}`];
  const holders = holdersOf(device);
  facts.push(holders.length > 0 ? `held by ${holders.join(", ")}` : isHeld(device) ? "allocated" : "free");
  if (typeof device.utilization_ratio === "number") facts.push(`${percent(device.utilization_ratio)} busy`);
  if (device.memory_used && device.memory_total) facts.push(`${bytes(device.memory_used)} of ${bytes(device.memory_total)}`);
  if (typeof device.temperature_celsius === "number") facts.push(`${device.temperature_celsius} °C`);
  if (typeof device.power_watts === "number") facts.push(`${Math.round(device.power_watts)} W`);
  if (device.foreign_processes) facts.push(`${plural(device.foreign_processes, "foreign process", "foreign processes")}`);
  return facts.join(", ");
}

function Gpu({ device }: { device: GpuDevice }) {
  const holder = holdersOf(device)[0];
  const kind = holder !== undefined || isHeld(device) ? "held" : "";
  const style = holder === undefined ? {} : { "--of": seriesColour(placeOfName(holder)) };
  const busy = device.utilization_ratio;
  const memory = gpuMemoryRatio(device);
  return (
    <li class={`gpu ${kind}`} style={style} title={deviceText(device)}>
      <span class="visually-hidden">{deviceText(device)}</span>
      {typeof busy === "number" && <span class="gpu-busy" aria-hidden="true" style={{ height: `${Math.round(busy * 100)}%` }} />}
      {memory !== null && <span class="gpu-memory" aria-hidden="true" style={{ height: `${Math.round(memory * 100)}%` }} />}
      <span class="gpu-number" aria-hidden="true">{device.index}</span>
    </li>
  );
}

export function NodeCard({ node }: { node: NodeRecord }) {
  const state = stateOf(node);
  const devices = node.gpu_devices;
  const cpu = share(node, "CPU");
  const memory = memoryRatio(node);
  const gpus = gpuUse(node);
  return (
    <article class={`card node-${state.toLowerCase()}`}>
      <div class="card-head">
        <a class="strong" href={address(["nodes", node.node])}><Words text={node.node} /></a>
        <State state={state} title={node.reason} />
      </div>
      {devices.length > 0 && <ul class="gpus" aria-label={`GPUs of ${node.node}`}>{devices.map((device) => <Gpu key={device.index} device={device} />)}</ul>}
      <dl class="lines">
        {gpus.busy !== null && <div><dt>GPU use</dt><dd><Bar ratio={gpus.busy} /></dd></div>}
        {gpus.memory !== null && <div><dt>GPU mem.</dt><dd><Bar ratio={gpus.memory.used / gpus.memory.total} text={bytesOf(gpus.memory.used, gpus.memory.total)} /></dd></div>}
        {cpu !== null && <div><dt>CPU</dt><dd><Bar ratio={cpu} text={`${allocatedOf(node, "CPU").toLocaleString("en-US")} of ${node.resources["CPU"]} allocated`} /></dd></div>}
        {memory !== null && <div><dt>Memory</dt><dd><Bar ratio={memory} text={bytes(node.memory_used)} tone={memory > 0.92 ? "bad" : ""} /></dd></div>}
      </dl>
      {node.runs.length > 0 && (
        <ul class="chips" aria-label={`Runs on ${node.node}`}>
          {node.runs.slice(0, 6).map((run) => <li key={run}><a class="chip" href={address(["runs", run])}><i class="swatch" style={{ background: seriesColour(placeOfName(run)) }} aria-hidden="true" /><span><Words text={run} /></span></a></li>)}
          {node.runs.length > 6 && <li class="quiet">and {node.runs.length - 6} more</li>}
        </ul>
      )}
      {node.reason && state !== "READY" && <p class="quiet clamp">{node.reason}</p>}
    </article>
  );
}
