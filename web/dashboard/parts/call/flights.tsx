import { useState } from "preact/hooks";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { may, useProject } from "../../project.ts";
import { Action } from "../action.tsx";
import { bytesText } from "../numbers.ts";
import { Plot } from "../plot.tsx";
import { humanize, Loaded } from "../states.tsx";
import { Table } from "../table.tsx";
import { Ago } from "../time.tsx";

/** The flight records of a connection, saved on an error or on request. */
export function Flights({ connectionId, live }: { connectionId: string; live: boolean }) {
  const { at, environment } = useProject();
  const routes = at.connections({ connectionId });
  const query = { environment };
  const dumps = usePolling(() => request(routes.dumps.get({ query })), [connectionId, environment]);
  const [shown, setShown] = useState<string | null>(null);
  return (
    <section class="stack">
      <div class="row between">
        <h2>Flight recorder</h2>
        {live && may("rooms:manage") && (
          <Action
            run={() => request(routes.dump.post({}, { query })).then(dumps.reload)}
            done="The last seconds of the connection were saved."
          >
            Save the last seconds
          </Action>
        )}
      </div>
      <Loaded
        live={dumps}
        isEmpty={(rows) => rows.length === 0}
        empty="No flight records. One is saved when an error is classified, or on request during the connection."
      >
        {(rows) => (
          <Table
            label="Dumps"
            rows={rows}
            id={({ id }) => id}
            columns={[
              { title: "Saved", cell: ({ takenAt }) => <Ago at={takenAt} /> },
              { title: "Reason", cell: ({ reason }) => humanize(reason) },
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
      </Loaded>
      {shown !== null && <Flight key={shown} connectionId={connectionId} dumpId={shown} />}
    </section>
  );
}

const known = (value: number | undefined) => Math.max(0, value ?? 0);

/** The plots of one flight record. */
function Flight({ connectionId, dumpId }: { connectionId: string; dumpId: string }) {
  const { at, environment } = useProject();
  const routes = at.connections({ connectionId }).dumps({ dumpId });
  const dump = usePolling(() => request(routes.get({ query: { environment } })), [dumpId, environment], 0);
  return (
    <Loaded live={dump}>
      {(shown) => {
        const { states, received, sent, rtcp, sinceMs, lastedMs } = shown;
        const times = states.map(([atMs = 0]) => (sinceMs + atMs) / 1_000);
        const column = (index: number, scale = 1) => states.map((row) => known(row[index]) / scale);
        return (
          <>
            <Plot
              label="Bandwidth to the client, in kbit/s"
              kind="level"
              times={times}
              series={[{ label: "Estimate", values: column(1, 1_000).map(Math.round), colour: "accent" }]}
            />
            <Plot
              label="Delay, in milliseconds"
              kind="level"
              times={times}
              series={[
                { label: "Queue", values: column(2), colour: "bad" },
                { label: "Round trip", values: column(3), colour: "cool" },
                { label: "Jitter", values: column(6), colour: "accent" },
              ]}
            />
            <Plot
              label="Packet loss, in percent"
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
    </Loaded>
  );
}

const fileOf = (dump: object) => `data:application/json,${encodeURIComponent(JSON.stringify(dump))}`;
