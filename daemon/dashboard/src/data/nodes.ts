// Computes what a node's tile shows. Pure.
import type { GpuDevice, NodeRecord } from "../api/types.ts";

// Returns READY and so on; AWAY for a node that is not lost and has no connection.
export function stateOf(node: NodeRecord): string {
  return node.state !== "LOST" && !node.connected ? "AWAY" : node.state;
}

export function share(node: NodeRecord, resource: string): number | null {
  const total = Number(node.resources[resource] ?? 0);
  if (!(total > 0)) return null;
  return Math.max(0, Math.min(1, (total - Number(node.free[resource] ?? 0)) / total));
}

// Returns the allocated amount. The head sends no free amount for a resource that is wholly allocated.
export function allocatedOf(node: NodeRecord, resource: string): number {
  return Number(node.resources[resource] ?? 0) - Number(node.free[resource] ?? 0);
}

export function memoryRatio(node: NodeRecord): number | null {
  return node.memory_total > 0 ? Math.min(1, node.memory_used / node.memory_total) : null;
}

export function isHeld(device: GpuDevice): boolean {
  return device.held_by.length > 0;
}

export function holdersOf(device: GpuDevice): string[] {
  return [...new Set(device.held_by.map((holder) => holder.run))];
}

// Returns the fraction of a GPU's memory in use; null if the node does not report it.
export function gpuMemoryRatio(device: GpuDevice): number | null {
  if (typeof device.memory_used !== "number" || !device.memory_total) return null;
  return Math.max(0, Math.min(1, device.memory_used / device.memory_total));
}

export interface GpuUse {
  busy: number | null;  // mean over the devices that report it, 0 to 1
  memory: { used: number; total: number } | null;  // sums in bytes
}

// Returns the mean use and the memory of all GPUs of a node together.
export function gpuUse(node: NodeRecord): GpuUse {
  const devices = node.gpu_devices;
  const busy = devices.flatMap((device) => (typeof device.utilization_ratio === "number" ? [device.utilization_ratio] : []));
  const sized = devices.filter((device) => gpuMemoryRatio(device) !== null);
  const sum = (of: (device: GpuDevice) => number) => sized.reduce((before, device) => before + of(device), 0);
  return {
    busy: busy.length === 0 ? null : busy.reduce((before, ratio) => before + ratio, 0) / busy.length,
    memory: sized.length === 0 ? null : { used: sum((device) => device.memory_used!), total: sum((device) => device.memory_total!) },
  };
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
