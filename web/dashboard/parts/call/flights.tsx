import { useState } from "preact/hooks";
import { ask } from "../../api.ts";
import { useLive } from "../../live.ts";
import { may, useProject } from "../../project.ts";
import { Action } from "../action.tsx";
import { bytesText } from "../numbers.ts";
import { Plot } from "../plot.tsx";
import { Shown, words } from "../states.tsx";
import { Table } from "../table.tsx";
import { Ago } from "../time.tsx";

/** What the flight recorder of a connection held when something went wrong, or when somebody asked. */
export function Flights({ connectionId, live }: { connectionId: string; live: boolean }) {
  const { at, environment } = useProject();
  const routes = at.connections({ connectionId });
  const query = { environment };
  const dumps = useLive(() => ask(routes.dumps.get({ query })), [connectionId, environment]);
  const [shown, setShown] = useState<string | null>(null);
  return (
    <section class="stack">
      <div class="row between">
        <h2>Flight recorder</h2>
        {live && may("rooms:manage") && (
          <Action
            run={() => ask(routes.dump.post({}, { query })).then(dumps.reload)}
            done="The last seconds of the connection were kept."
          >
            Keep the last seconds
          </Action>
        )}
      </div>
      <Shown
        live={dumps}
        isEmpty={(rows) => rows.length === 0}
        empty="Nothing was kept. It is when an error is classified, and when somebody asks while the connection is on."
      >
        {(rows) => (
          <Table
            label="Dumps"
            rows={rows}
            id={({ id }) => id}
            columns={[
              { title: "Kept", cell: ({ takenAt }) => <Ago at={takenAt} /> },
              { title: "Because", cell: ({ reason }) => words(reason) },
              { title: "Size", cell: ({ bytes }) => bytesText(bytes), number: true, wide: true },
              {
                title: "Show",
                cell: ({ id }) => (
                  <button type="button" class="button" onClick={() => setShown(id === shown ? null : id)}>
                    {id === shown ? "Hide" : "Show"}
                  </button>
                ),
                actions: true,
              },
            ]}
          />
        )}
      </Shown>
      {shown !== null && <Flight key={shown} connectionId={connectionId} dumpId={shown} />}
    </section>
  );
}

const known = (value: number | undefined) => Math.max(0, value ?? 0);

/** One dump, drawn. */
function Flight({ connectionId, dumpId }: { connectionId: string; dumpId: string }) {
  const { at, environment } = useProject();
  const routes = at.connections({ connectionId }).dumps({ dumpId });
  const dump = useLive(() => ask(routes.get({ query: { environment } })), [dumpId, environment], 0);
  return (
    <Shown live={dump}>
      {(shown) => {
        const { states, received, sent, rtcp, sinceMs, lastedMs } = shown;
        const times = states.map(([atMs = 0]) => (sinceMs + atMs) / 1_000);
        const column = (index: number, scale = 1) => states.map((row) => known(row[index]) / scale);
        return (
          <>
            <Plot
              label="Room towards the client, in kbit/s"
              kind="level"
              times={times}
              series={[{ label: "Estimate", values: column(1, 1_000).map(Math.round), colour: "accent" }]}
            />
            <Plot
              label="Waiting, in milliseconds"
              kind="level"
              times={times}
              series={[
                { label: "Queue", values: column(2), colour: "bad" },
                { label: "Round trip", values: column(3), colour: "cool" },
                { label: "Jitter", values: column(6), colour: "accent" },
              ]}
            />
            <Plot
              label="Lost, in percent"
              kind="level"
              times={times}
              series={[
                { label: "From the client", values: column(4), colour: "bad" },
                { label: "To the client", values: column(5), colour: "cool" },
              ]}
            />
            <p class="quiet small">
              {received.length} packets received, {sent.length} sent and {rtcp.length} reports of the last{" "}
              {Math.round(lastedMs / 1_000)} s. No content, no addresses.{" "}
              <a href={fileOf(shown)} download={`flight-${dumpId}.json`}>
                Download
              </a>{" "}
              and run <code>stoa replay flight-{dumpId}.json</code> to see what was decided, and why.
            </p>
          </>
        );
      }}
    </Shown>
  );
}

const fileOf = (dump: object) => `data:application/json,${encodeURIComponent(JSON.stringify(dump))}`;
