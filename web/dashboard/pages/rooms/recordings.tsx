import { RECORDING_STATUSES, type RecordingStatus } from "../../../../src/protocol/enums.ts";
import { useFilter } from "../../address.ts";
import { requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { Select } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { bytesText } from "../../parts/numbers.ts";
import { RecordingDot } from "../../parts/recording/record-button.tsx";
import { RoomName } from "../../parts/room-name.tsx";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

const STATUSES = RECORDING_STATUSES.map((value) => ({ value, label: humanize(value) }));

/** The recordings of the environment or of one room. */
export function Recordings() {
  const { at, environment, projectId, path } = useProject();
  const [roomId, setRoomId] = useFilter("roomId");
  const [status, setStatus] = useFilter<RecordingStatus>("status");
  const recordings = useList(
    (page) => {
      const asked = { ...(roomId && { roomId }), ...(status && { status }) };
      return requestPage(at.recordings.get({ query: { ...page, environment, ...asked } }));
    },
    [projectId, environment, roomId, status],
  );
  return (
    <>
      <PageHead title="Recordings">
        <a class="button" href="/docs/recordings">
          How recording works
        </a>
      </PageHead>
      <List
        label="recordings"
        live={recordings}
        id={({ id }) => id}
        search={({ name, roomName, id }) => `${name ?? ""} ${roomName} ${id}`}
        filters={
          <>
            <Select
              label="Status"
              value={status}
              onValue={setStatus}
              options={[{ value: "", label: "Any status" }, ...STATUSES]}
            />
            {roomId !== "" && (
              <button type="button" class="button" onClick={() => setRoomId("")}>
                Show all rooms
              </button>
            )}
          </>
        }
        empty={
          roomId === "" && status === "" ? (
            <>
              <p>Nothing has been recorded yet.</p>
              <p class="quiet">
                Open <a href={path("rooms")}>a room</a> and press “Record”, create a room that records every call, or{" "}
                <code>POST /v1/rooms/…/recordings</code> with your API key.
              </p>
            </>
          ) : (
            "No recordings match these filters."
          )
        }
        columns={[
          {
            title: "Name",
            cell: ({ id, name, roomName }) => (
              <a href={path(`recordings/${id}`)}>{name ?? <RoomName name={roomName} />}</a>
            ),
          },
          {
            title: "Room",
            cell: ({ roomId: id, roomName }) => (
              <a href={path(`rooms/${id}`)}>
                <RoomName name={roomName} />
              </a>
            ),
          },
          {
            title: "Status",
            cell: ({ status: now }) => (now === "RECORDING" ? <RecordingDot /> : <Badge>{now}</Badge>),
          },
          { title: "Started", cell: ({ startedAt }) => <Ago at={startedAt} /> },
          { title: "Length", cell: ({ durationMs }) => durationText(durationMs), number: true },
          { title: "Tracks", cell: ({ files }) => files.length, number: true, wide: true },
          { title: "Size", cell: ({ bytes }) => bytesText(bytes), number: true },
        ]}
      />
    </>
  );
}
