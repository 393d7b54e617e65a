import { CALL_STATUSES, type CallStatus } from "../../../../src/protocol/enums.ts";
import { useFilter } from "../../address.ts";
import { requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { Select } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { countText } from "../../parts/numbers.ts";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** The calls, newest first. A call lasts while a room has participants. */
export function Calls() {
  const { at, environment, projectId, path } = useProject();
  const [status, setStatus] = useFilter<CallStatus>("status");
  const [roomId, setRoomId] = useFilter("roomId");
  const [connectionId, setConnectionId] = useFilter("connectionId");
  const calls = useList(
    (page) => {
      const of = { ...(roomId !== "" && { roomId }), ...(connectionId !== "" && { connectionId }) };
      return requestPage(at.calls.get({ query: { ...page, environment, ...(status !== "" && { status }), ...of } }));
    },
    [projectId, environment, status, roomId, connectionId],
  );
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
              options={[
                { value: "", label: "Every call" },
                ...CALL_STATUSES.map((value) => ({ value, label: humanize(value) })),
              ]}
            />
            {roomId !== "" && (
              <button type="button" class="button" onClick={() => setRoomId("")}>
                Only room {calls.data?.[0]?.roomName ?? roomId} ×
              </button>
            )}
            {connectionId !== "" && (
              <button type="button" class="button" onClick={() => setConnectionId("")}>
                Only one connection ×
              </button>
            )}
          </>
        }
        empty="No calls match this filter. A call begins when a participant joins a room."
        columns={[
          { title: "Room", cell: ({ id, roomName }) => <a href={path(`calls/${id}`)}>{roomName}</a> },
          { title: "Status", cell: (one) => <Badge>{one.status}</Badge> },
          { title: "Lasted", cell: ({ durationMs }) => durationText(durationMs), number: true },
          { title: "People", cell: ({ participantCount }) => countText(participantCount), number: true },
          { title: "At once", cell: ({ peakParticipants }) => countText(peakParticipants), number: true, wide: true },
          { title: "Minutes", cell: ({ minutes }) => countText(minutes), number: true, wide: true },
          { title: "Started", cell: ({ startedAt }) => <Ago at={startedAt} />, wide: true },
        ]}
      />
    </>
  );
}
