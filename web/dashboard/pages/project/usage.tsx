import { useChoice } from "../../address.ts";
import { api, request, requestPage } from "../../api.ts";
import { useList, usePolling } from "../../live.ts";
import { Bars, Ring } from "../../parts/bars.tsx";
import { List } from "../../parts/list.tsx";
import { countText, percentText } from "../../parts/numbers.ts";
import { Plot } from "../../parts/plot.tsx";
import { RoomName } from "../../parts/room-name.tsx";
import { Details, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { Choice } from "../../parts/tabs.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

const DAYS = { "7 days": 7, "30 days": 30, "90 days": 90 } as const;
type DaysName = keyof typeof DAYS;
const EVERY_MS = 15_000;

/** Participant-minutes of the account and its allowance, and of this project by day. */
export function Usage() {
  const { at, environment, projectId, path } = useProject();
  const [range, setRange] = useChoice("days", Object.keys(DAYS) as DaysName[], "30 days");
  const account = usePolling(() => request(api.v1.usage.detail.get({ query: { days: 1, limit: 1 } })), [], EVERY_MS);
  const days = DAYS[range];
  const project = usePolling(
    () => request(at.usage.get({ query: { days, limit: 50, environment } })),
    [projectId, days, environment],
    EVERY_MS,
  );
  return (
    <>
      <PageHead title="Usage">
        <Choice label="Days" value={range} onValue={setRange} options={Object.keys(DAYS) as DaysName[]} />
      </PageHead>
      <Loaded live={account}>
        {(usage) =>
          !usage.projects.some((one) => one.projectId === projectId) ? (
            usage.allowanceSet && <p class="note">The minutes of this project count toward its owner's allowance.</p>
          ) : (
            <section class="card allowance">
              {usage.allowanceSet && (
                <Ring
                  label={`${percentText(usage.usedPercent / 100)} of the included minutes are used`}
                  share={usage.usedPercent / 100}
                >
                  {percentText(usage.usedPercent / 100)}
                </Ring>
              )}
              <div class="stack">
                <h2>Your account this month</h2>
                <Details
                  items={[
                    ["Used", `${countText(usage.usedMinutes)} min`],
                    ...(usage.allowanceSet
                      ? ([
                          ["Included", `${countText(usage.includedMinutes)} min`],
                          ["Left", `${countText(usage.remainingMinutes)} min`],
                        ] as [string, string][])
                      : []),
                    ["In a call now", countText(usage.liveSessions)],
                  ]}
                />
                {usage.allowanceSet && (
                  <p class={usage.exceeded ? "note warn" : "quiet small"}>
                    {usage.enforced
                      ? "Once the allowance is used up, new tokens are refused."
                      : "The allowance is not enforced: calls continue beyond it."}
                  </p>
                )}
                <Bars
                  label="Minutes by project"
                  bars={usage.projects.map(({ projectId: id, name, minutes }) => ({
                    id,
                    label: name,
                    value: minutes,
                    text: `${countText(minutes)} min`,
                  }))}
                />
              </div>
            </section>
          )
        }
      </Loaded>
      <Loaded live={project}>
        {({ daily, history, usedMinutes, recordedMinutes }) => (
          <>
            <Plot
              label={`This project by day (${humanize(environment).toLowerCase()}): ${countText(usedMinutes)} minutes this month`}
              kind="days"
              times={daily.map(({ date }) => Date.parse(date) / 1000)}
              series={[{ label: "Minutes", values: daily.map(({ minutes }) => minutes), colour: "accent" }]}
            />
            <CallsUsed />
            <p class="quiet">
              {countText(recordedMinutes)} minutes were recorded this month. See{" "}
              <a href={path("recordings")}>Recordings</a>.
            </p>
            <section class="stack">
              <h2>Sessions</h2>
              {history.length === 0 ? (
                <div class="empty">No participants in this environment yet.</div>
              ) : (
                <Table
                  label="Sessions"
                  rows={history}
                  id={({ id }) => id}
                  columns={[
                    { title: "Participant", cell: ({ participantIdentity }) => participantIdentity },
                    { title: "Room", cell: ({ roomName }) => <RoomName name={roomName} /> },
                    { title: "Started", cell: ({ startedAt }) => <Ago at={startedAt} /> },
                    { title: "Ended", cell: ({ endedAt }) => (endedAt ? <Ago at={endedAt} /> : "running"), wide: true },
                    { title: "Minutes", cell: ({ minutes }) => countText(minutes), number: true },
                  ]}
                />
              )}
            </section>
          </>
        )}
      </Loaded>
    </>
  );
}

/** The minutes by call in the selected environment. */
function CallsUsed() {
  const { at, environment, path, projectId } = useProject();
  const calls = useList(
    (page) => requestPage(at.calls.get({ query: { ...page, environment } })),
    [projectId, environment],
    EVERY_MS,
  );
  return (
    <section class="stack">
      <h2>Calls</h2>
      <List
        label="calls"
        live={calls}
        id={({ id }) => id}
        empty="No calls in this environment yet."
        columns={[
          {
            title: "Room",
            cell: ({ id, roomName }) => (
              <a href={path(`calls/${id}`)}>
                <RoomName name={roomName} />
              </a>
            ),
          },
          { title: "Started", cell: ({ startedAt }) => <Ago at={startedAt} /> },
          { title: "Duration", cell: ({ durationMs }) => durationText(durationMs), number: true, wide: true },
          { title: "People", cell: ({ participantCount }) => countText(participantCount), number: true, wide: true },
          { title: "Minutes", cell: ({ minutes }) => countText(minutes), number: true },
        ]}
      />
    </section>
  );
}
