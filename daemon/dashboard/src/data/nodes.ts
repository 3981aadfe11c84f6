// What a node's tile shows. Pure.
import type { GpuDevice, NodeRecord } from "../api/types.ts";

// READY and so on; AWAY while a node that is not lost has no connection.
export function stateOf(node: NodeRecord): string {
  return node.state !== "LOST" && !node.connected ? "AWAY" : node.state;
}

export function share(node: NodeRecord, resource: string): number | null {
  const total = Number(node.resources[resource] ?? 0);
  if (!(total > 0)) return null;
  return Math.max(0, Math.min(1, (total - Number(node.free[resource] ?? 0)) / total));
}

// How much of it is in use: what is free is not told where nothing is.
export function inUse(node: NodeRecord, resource: string): number {
  return Number(node.resources[resource] ?? 0) - Number(node.free[resource] ?? 0);
}

export function memoryRatio(node: NodeRecord): number | null {
  return node.memory_total > 0 ? Math.min(1, node.memory_used / node.memory_total) : null;
}

// The devices of a node. A head that does not tell each one's holder tells how many are free: the first are then taken
// as held, by nobody in particular.
export function devicesOf(node: NodeRecord): GpuDevice[] {
  if (node.gpu_devices) return node.gpu_devices;
  let held = node.gpus - Number(node.gpus_free);
  return Array.from({ length: node.gpus }, (_, index) => {
    const of = Math.max(0, Math.min(1, held));
    held -= of;
    return { index, free: String(1 - of) };
  });
}

export function isHeld(device: GpuDevice): boolean {
  return device.held_by ? device.held_by.length > 0 : Number(device.free ?? 1) < 1;
}

export function holdersOf(device: GpuDevice): string[] {
  return [...new Set((device.held_by ?? []).map((one) => one.run))];
}

export interface Totals {
  gpus: number;
  gpus_held: number;
  nodes: number;
  states: Map<string, number>;
}

export function totalsOf(nodes: readonly NodeRecord[]): Totals {
  const states = new Map<string, number>();
  let gpus = 0;
  let held = 0;
  for (const node of nodes) {
    const state = stateOf(node);
    states.set(state, (states.get(state) ?? 0) + 1);
    gpus += node.gpus;
    held += node.gpus - Number(node.gpus_free);
  }
  return { gpus, gpus_held: held, nodes: nodes.length, states };
}
