import { CONNECTION_STATES, type ConnectionState } from "../../../../src/protocol/observability.ts";
import { useFilter } from "../../address.ts";
import { requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { filterOptions, Select } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { RoomName } from "../../parts/room-name.tsx";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** The connections to rooms, newest first. */
export function Connections() {
  const { at, environment, projectId, path } = useProject();
  const [state, setState] = useFilter<ConnectionState>("state");
  const [roomId, setRoomId] = useFilter("roomId");
  const connections = useList(
    (page) => {
      const query = { ...page, environment, ...(state !== "" && { state }), ...(roomId !== "" && { roomId }) };
      return requestPage(at.connections.get({ query }));
    },
    [projectId, environment, state, roomId],
  );
  return (
    <>
      <PageHead title="Connections" />
      <List
        label="connections"
        live={connections}
        id={({ id }) => id}
        search={(one) =>
          [one.participantIdentity, one.roomName, one.ipAddress, one.connectionId, one.userAgent].join(" ")
        }
        filters={
          <>
            <Select
              label="State"
              value={state}
              onValue={setState}
              options={filterOptions("Any state", CONNECTION_STATES, humanize)}
            />
            {roomId !== "" && (
              <button type="button" class="button" onClick={() => setRoomId("")}>
                Only room {connections.data?.[0]?.roomName ?? roomId} ×
              </button>
            )}
          </>
        }
        empty="No connections match this filter."
        columns={[
          {
            title: "Participant",
            cell: ({ id, participantIdentity }) => <a href={path(`connections/${id}`)}>{participantIdentity}</a>,
          },
          { title: "State", cell: (one) => <Badge>{one.state}</Badge> },
          {
            title: "Room",
            cell: ({ roomName }) => (roomName === null ? "–" : <RoomName name={roomName} />),
            wide: true,
          },
          { title: "Join", cell: ({ joinTimeMs }) => durationText(joinTimeMs), number: true, wide: true },
          { title: "RTT", cell: ({ rttMs }) => durationText(rttMs), number: true, wide: true },
          {
            title: "Loss",
            cell: ({ packetLossPercent: loss }) => (loss === null ? "–" : `${loss.toFixed(1)} %`),
            number: true,
            wide: true,
          },
          { title: "Reconnects", cell: ({ reconnectCount }) => reconnectCount, number: true, wide: true },
          { title: "Duration", cell: ({ durationMs }) => durationText(durationMs), number: true },
          { title: "Started", cell: ({ startedAt }) => <Ago at={startedAt} />, wide: true },
        ]}
      />
    </>
  );
}
