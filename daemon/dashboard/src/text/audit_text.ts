// Says in words what a row of the audit records: "drained node gpu-3" instead of its method and path. Pure.
import type { AuditRow } from "../api/types.ts";
import { bytes } from "./units.ts";

// The target is a path with blanks as %20. Behind the first blank stand the facts that the head has added.
interface Target {
  parts: string[];  // decoded parts of the path behind /v1
  query: URLSearchParams;
  detail: string;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function targetOf(text: string): Target {
  const blank = text.indexOf(" ");
  const path = blank < 0 ? text : text.slice(0, blank);
  const mark = path.indexOf("?");
  return {
    parts: (mark < 0 ? path : path.slice(0, mark)).split("/").slice(2).map(decoded),
    query: new URLSearchParams(mark < 0 ? "" : path.slice(mark + 1)),
    detail: blank < 0 ? "" : text.slice(blank + 1),
  };
}

// "role=user" in "id=1f2e role=user user=lin"
const fact = (target: Target, name: string) => new RegExp(`(?:^| )${name}=([^ ]*)`).exec(target.detail)?.[1] ?? "";

function tokenText(target: Target): string {
  const role = fact(target, "role");
  if (role === "node") return "made a token with which nodes join";
  return "made a token of role " + role + (fact(target, "user") === "" ? "" : ` for ${fact(target, "user")}`);
}

// `detail`: what was asked for, as JSON, cut where it is long.
function queueText(name: string, detail: string): string {
  try {
    const rules = JSON.parse(detail) as Record<string, unknown>;
    const words = Object.entries(rules).map(([key, value]) => `${key} ${value === null ? "removed" : typeof value === "object" ? Object.entries(value).map(([of, amount]) => `${of} ${amount ?? "without limit"}`).join(", ") : String(value)}`);
    return `changed queue ${name}: ${words.join("; ")}`;
  } catch {
    return `changed queue ${name}`;
  }
}

// `limit={"memory":1048576,"files":5}`, or `limit=default`.
function limitText(user: string, target: Target): string {
  if (fact(target, "limit") === "default") return `gave ${user} the limits that all users have`;
  const amounts = [...target.detail.matchAll(/"(\w+)":(\d+)/g)].map(([, name, count]) => `${name} ${name === "streams" ? count : bytes(Number(count))}`);
  return `set the limits of what the head keeps for ${user}${amounts.length === 0 ? "" : `: ${amounts.join(", ")}`}`;
}

const texts: Record<string, (target: Target) => string> = {
  "POST /v1/session": () => "signed in to the page",
  "DELETE /v1/session": () => "signed out of the page",
  "POST /v1/runs": (to) => `submitted run ${fact(to, "name")}`.trim(),
  "DELETE /v1/runs/{run}": ({ parts, query }) => `removed run ${parts[1]}${query.get("files") === "true" ? " and its files" : ""}`,
  "POST /v1/runs/{run}/stop": ({ parts }) => `stopped run ${parts[1]}`,
  "POST /v1/runs/{run}/checkpoint": ({ parts }) => `requested a checkpoint of run ${parts[1]}`,
  "POST /v1/runs/{run}/checkpoints/verified": ({ parts }) => `reported how verifying checkpoints of run ${parts[1]} ended`,
  "POST /v1/runs/{run}/resize": ({ parts }) => `resized run ${parts[1]}`,
  "POST /v1/runs/{run}/yields": (to) => (fact(to, "yields") === "true" ? `let run ${to.parts[1]} yield to waiting runs` : `kept run ${to.parts[1]} from yielding`),
  "POST /v1/runs/{run}/priority": (to) => `changed the priority of run ${to.parts[1]} to ${fact(to, "priority")}`,
  "POST /v1/runs/{run}/restore": (to) => `restored run ${fact(to, "name")} from run ${to.parts[1]}${fact(to, "checkpoint") === "" ? "" : `, ${fact(to, "checkpoint")}`}`,
  "POST /v1/runs/{run}/checkpoints/verify": (to) => `verified ${fact(to, "checkpoint")} of run ${to.parts[1]}: ${fact(to, "faults") === "0" ? "intact" : `${fact(to, "faults")} files damaged`}`,
  "POST /v1/runs/{run}/stack": ({ parts }) => `requested the stacks of run ${parts[1]}`,
  "PUT /v1/runs/{run}/values/{key}": ({ parts }) => `set value ${parts[3]} of run ${parts[1]}`,
  "POST /v1/nodes/{node}/drain": ({ parts }) => `drained node ${parts[1]}`,
  "POST /v1/nodes/{node}/quarantine": ({ parts }) => `quarantined node ${parts[1]}`,
  "POST /v1/nodes/{node}/undrain": ({ parts }) => `returned node ${parts[1]} to service`,
  "POST /v1/nodes/{node}/leave": ({ parts }) => `removed node ${parts[1]} from the cluster`,
  "PUT /v1/queues": () => "replaced the rules of all queues",
  "PUT /v1/queues/{queue}": ({ parts, detail }) => queueText(parts[1] ?? "", detail),
  "DELETE /v1/queues/{queue}": ({ parts }) => `removed queue ${parts[1]}`,
  "POST /v1/tokens": tokenText,
  "DELETE /v1/tokens/{id}": ({ parts }) => `revoked token ${parts[1]}`,
  "PUT /v1/quotas/{user}": (to) => limitText(to.parts[1] ?? "", to),
  "PUT /v1/blobs/{sha256}": () => "sent a code archive",
  "POST /v1/join": (to) => `let node ${fact(to, "node")} join`,
  "POST /v1/certificate": () => "renewed its certificate",
  "POST /v1/head/backup": () => "backed up the head",
  "POST /v1/head/stop": () => "stopped the head",
  "PUT /v1/storage/{path...}": ({ parts }) => `wrote ${parts.slice(1).join("/")} of cluster://`,
  "DELETE /v1/storage/{path...}": ({ parts, query }) => `removed ${parts.slice(1).join("/")}${query.get("tree") === "true" ? " and all below it" : ""} of cluster://`,
};

// Returns the method and path of an action that is not known.
export function auditText(row: AuditRow): string {
  const text = texts[row.action];
  return text ? text(targetOf(row.target)) : `${row.action} ${row.target}`.trim();
}

