import { CALL_STATUSES, type CallStatus, QUALITIES, VERDICT_CAUSES } from "../../../../src/protocol/enums.ts";
import type { Quality, VerdictCause } from "../../../../src/protocol/room-records.ts";
import { useFilter } from "../../address.ts";
import { requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { Encrypted } from "../../parts/encrypted.tsx";
import { filterOptions, Select, TextInput } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { countText } from "../../parts/numbers.ts";
import { RoomName } from "../../parts/room-name.tsx";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Ago, durationText, localDay } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** The calls, newest first. A call lasts while a room has participants. */
export function Calls() {
  const { at, environment, projectId, path } = useProject();
  const [status, setStatus] = useFilter<CallStatus>("status");
  const [quality, setQuality] = useFilter<Quality>("quality");
  const [cause, setCause] = useFilter<VerdictCause>("cause");
  const [from, setFrom] = useFilter("from");
  const [until, setUntil] = useFilter("until");
  const [roomId, setRoomId] = useFilter("roomId");
  const [connectionId, setConnectionId] = useFilter("connectionId");
  const calls = useList(
    (page) => {
      const filters = {
        ...(status !== "" && { status }),
        ...(quality !== "" && { quality }),
        ...(cause !== "" && { cause }),
        ...(from !== "" && { from: localDay(from) }),
        // The last day counts as a whole.
        ...(until !== "" && { until: localDay(until, 1) }),
        ...(roomId !== "" && { roomId }),
        ...(connectionId !== "" && { connectionId }),
      };
      return requestPage(at.calls.get({ query: { ...page, environment, ...filters } }));
    },
    [projectId, environment, status, quality, cause, from, until, roomId, connectionId],
  );
  const isFiltered = [status, quality, cause, from, until, roomId, connectionId].some((value) => value !== "");
  return (
    <>
      <PageHead title="Calls" />
      <List
        label="calls"
        live={calls}
        id={({ id }) => id}
        search={({ id, roomName }) => `${roomName} ${id}`}
        filters={
          <>
            <Select
              label="Status"
              value={status}
              onValue={setStatus}
              options={filterOptions("Any status", CALL_STATUSES, humanize)}
            />
            <Select
              label="Quality"
              value={quality}
              onValue={setQuality}
              options={filterOptions("Any quality", QUALITIES, humanize)}
            />
            <Select
              label="Verdict"
              value={cause}
              onValue={setCause}
              options={filterOptions("Any verdict", VERDICT_CAUSES, verdictText)}
            />
            <span class="row dates">
              <span aria-hidden="true">From</span>
              <TextInput type="date" label="From" value={from} onValue={setFrom} />
              <span aria-hidden="true">to</span>
              <TextInput type="date" label="To" value={until} onValue={setUntil} />
            </span>
            {roomId !== "" && (
              <button type="button" class="button" onClick={() => setRoomId("")}>
                Only room {calls.data?.[0] ? <RoomName name={calls.data[0].roomName} /> : roomId} ×
              </button>
            )}
            {connectionId !== "" && (
              <button type="button" class="button" onClick={() => setConnectionId("")}>
                Only one connection ×
              </button>
            )}
          </>
        }
        empty={
          isFiltered ? "No calls match these filters." : "No calls yet. A call begins when a participant joins a room."
        }
        columns={[
          {
            title: "Room",
            cell: ({ id, roomName, encrypted }) => (
              <span class="row">
                <a href={path(`calls/${id}`)}>
                  <RoomName name={roomName} />
                </a>
                {encrypted && <Encrypted />}
              </span>
            ),
          },
          { title: "Status", cell: (one) => <Badge>{one.status}</Badge> },
          { title: "Quality", cell: (one) => (one.quality === null ? "–" : <Badge>{one.quality}</Badge>) },
          { title: "Verdict", cell: (one) => (one.cause === null ? "–" : verdictText(one.cause)) },
          { title: "Duration", cell: ({ durationMs }) => durationText(durationMs), number: true },
          { title: "People", cell: ({ participantCount }) => countText(participantCount), number: true },
          { title: "Peak", cell: ({ peakParticipants }) => countText(peakParticipants), number: true, wide: true },
          { title: "Minutes", cell: ({ minutes }) => countText(minutes), number: true, wide: true },
          { title: "Started", cell: ({ startedAt }) => <Ago at={startedAt} />, wide: true },
          {
            title: "Recording",
            cell: ({ recordingIds }) => <RecordingLinks ids={recordingIds} />,
          },
        ]}
      />
    </>
  );
}

/** Links to the recordings of a call. */
export function RecordingLinks({ ids }: { ids: readonly string[] }) {
  const { path } = useProject();
  if (ids.length === 0) return <>–</>;
  return (
    <>
      {ids.map((id, index) => (
        <span key={id}>
          {index > 0 && ", "}
          <a href={path(`recordings/${id}`)}>{ids.length === 1 ? "Recording" : `Recording ${index + 1}`}</a>
        </span>
      ))}
    </>
  );
}

/** The cause of a verdict in the words of a list. */
export function verdictText(cause: VerdictCause): string {
  return cause === "none" ? "No problem found" : humanize(cause);
}
