// Events, newest first, updated live.
import { useEffect, useRef, useState } from "preact/hooks";
import { newest, Problem } from "../../api/client.ts";
import { follow } from "../../api/stream.ts";
import type { EventRecord } from "../../api/types.ts";
import { address } from "../../router.ts";
import { eventText } from "../../text/event_text.ts";
import { clock, exact, moment } from "../../text/time.ts";
import { Quiet } from "../../parts/panel.tsx";
import { Words } from "../../parts/words.tsx";

const kept_most = 500;

// Returns the last events of one run or of all runs, followed by new ones.
export function useEvents({ run = "", onNew }: { run?: string; onNew?: () => void }): EventRecord[] {
  const [events, set] = useState<EventRecord[]>([]);
  const tell = useRef(onNew);
  tell.current = onNew;
  useEffect(() => {
    let close = () => {};
    let gone = false;
    const ending = new AbortController();
    const path = run === "" ? "/v1/events" : `/v1/events?run=${encodeURIComponent(run)}`;
    const begin = (timer?: number) => {
      clearTimeout(timer);
      newest<EventRecord>(path, (event) => event.id, 0, kept_most, ending.signal).then(
        (events_before) => {
          if (gone) return;
          set([...events_before].reverse());
          close = follow({
            path,
            after: String(events_before.at(-1)?.id ?? 0),
            resumes: true,
            onData: (data) => {
              const event = JSON.parse(data) as EventRecord;
              set((before) => [event, ...before].slice(0, kept_most));
              tell.current?.();
            },
          });
        },
        (wrong: unknown) => {
          if (gone || (wrong instanceof Problem && wrong.status >= 400 && wrong.status < 500)) return;
          const again = window.setTimeout(() => begin(again), 2_000);
        },
      );
    };
    begin();
    return () => {
      gone = true;
      ending.abort();
      close();
    };
  }, [run]);
  return events;
}

export function Events({ events }: { events: EventRecord[] }) {
  if (events.length === 0) return <Quiet>Nothing has happened yet.</Quiet>;
  return (
    <ol class="events" tabIndex={0} role="list" aria-label="Events, newest first">
      {events.map((event) => (
        <li key={event.id}>
          <time dateTime={event.time ?? ""} title={exact(event.time)}>{clock(moment(event.time) ?? 0)}</time>
          <span class="event-text">
            {event.run_name && event.run_id && <a href={address(["runs", event.run_id])}><Words text={event.run_name} /></a>}
            {event.node && <a href={address(["nodes", event.node])}>{event.node}</a>} <Words text={eventText(event)} />
          </span>
        </li>
      ))}
    </ol>
  );
}
