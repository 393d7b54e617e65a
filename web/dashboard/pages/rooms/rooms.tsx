import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { useChoice } from "../../address.ts";
import { request, requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { Encrypted } from "../../parts/encrypted.tsx";
import { Field } from "../../parts/field.tsx";
import { Check, FormDialog, TextInput, useSubmit } from "../../parts/form.tsx";
import { Id } from "../../parts/id.tsx";
import { List } from "../../parts/list.tsx";
import { countText } from "../../parts/numbers.ts";
import { RecordingDot } from "../../parts/recording/record-button.tsx";
import { RoomName } from "../../parts/room-name.tsx";
import { PageHead } from "../../parts/states.tsx";
import { Choice } from "../../parts/tabs.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";

const SHOWN = { Active: "ACTIVE", Closed: "CLOSED" } as const;
type ShownName = keyof typeof SHOWN;

export function Rooms() {
  const { at, environment, projectId, path } = useProject();
  const [shown, setShown] = useChoice("shown", Object.keys(SHOWN) as ShownName[], "Active");
  const [creating, setCreating] = useState(false);
  const rooms = useList(
    (page) => requestPage(at.rooms.get({ query: { ...page, environment, status: SHOWN[shown] } })),
    [projectId, environment, shown],
  );
  return (
    <>
      <PageHead title="Rooms">
        {may("rooms:manage") && (
          <button type="button" class="button primary" onClick={() => setCreating(true)}>
            Create a room
          </button>
        )}
      </PageHead>
      <List
        label="rooms"
        live={rooms}
        id={({ id }) => id}
        search={({ name, id }) => `${name} ${id}`}
        filters={
          <Choice label="Which rooms" value={shown} onValue={setShown} options={Object.keys(SHOWN) as ShownName[]} />
        }
        empty={
          shown === "Active"
            ? "No rooms yet. Create one here, or with your API key."
            : "No rooms have been closed in this environment."
        }
        columns={[
          {
            title: "Name",
            cell: ({ id, name, recording, encrypted }) => (
              <span class="row">
                <a href={path(`rooms/${id}`)}>
                  <RoomName name={name} />
                </a>
                {encrypted && <Encrypted />}
                {recording && <RecordingDot />}
              </span>
            ),
          },
          { title: "Participants", cell: ({ participantCount }) => countText(participantCount), number: true },
          { title: "Server", cell: ({ serverName }) => serverName ?? "–", wide: true },
          { title: "Id", cell: ({ id }) => <Id>{id}</Id>, wide: true },
          { title: "Created", cell: ({ createdAt }) => <Ago at={createdAt} /> },
        ]}
      />
      {creating && <CreateRoom onClose={() => setCreating(false)} />}
    </>
  );
}

function CreateRoom({ onClose }: { onClose: () => void }) {
  const { at, environment, path } = useProject();
  const { route } = useLocation();
  const [name, setName] = useState("");
  const [record, setRecord] = useState(false);
  const [encrypted, setEncrypted] = useState(false);
  const form = useSubmit(async () => {
    const room = await request(
      at.rooms.post({ name, record: record && !encrypted, encrypted }, { query: { environment } }),
    );
    route(path(`rooms/${room.id}`));
  });
  return (
    <FormDialog title="Create a room" action="Create" form={form} onClose={onClose}>
      <Field label="Name" hint="Letters, digits, - _ and . — unique among the open rooms." error={form.problem("name")}>
        <TextInput required maxLength={128} value={name} onValue={setName} />
      </Field>
      <Check checked={record && !encrypted} disabled={encrypted} onChecked={setRecord}>
        Record every call
      </Check>
      <Check checked={encrypted} onChecked={setEncrypted}>
        End-to-end encrypted only: it cannot be recorded
      </Check>
    </FormDialog>
  );
}
