import { useState } from "preact/hooks";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { may, useProject } from "../../project.ts";
import { ConfirmButton } from "../confirm.tsx";
import { Field } from "../field.tsx";
import { FormDialog, TextInput, useSubmit } from "../form.tsx";
import { Badge, humanize, Loaded } from "../states.tsx";
import { Table } from "../table.tsx";
import { Ago } from "../time.tsx";

type Host = { identity: string; role: string; addedAt: string };
type HostsProps = { streamId: string; hosts: Host[]; ended: boolean; onChanged: () => void };

export function Hosts({ streamId, hosts, ended, onChanged }: HostsProps) {
  const { at } = useProject();
  const routes = at["live-streams"]({ streamId }).hosts;
  const [adding, setAdding] = useState(false);
  return (
    <section class="stack">
      <div class="row between">
        <h2>Hosts</h2>
        {!ended && may("streams:manage") && (
          <button type="button" class="button" onClick={() => setAdding(true)}>
            Add a co-host
          </button>
        )}
      </div>
      <Table
        label="Hosts"
        rows={hosts}
        id={({ identity }) => identity}
        columns={[
          { title: "Identity", cell: ({ identity }) => identity },
          { title: "Role", cell: ({ role }) => humanize(role) },
          { title: "Added", cell: ({ addedAt }) => <Ago at={addedAt} />, wide: true },
          {
            title: "Actions",
            actions: true,
            cell: ({ identity, role }) =>
              role === "CO_HOST" &&
              may("streams:manage") && (
                <ConfirmButton
                  button="Remove"
                  label={`Remove ${identity}`}
                  title={`Remove ${identity}?`}
                  action="Remove"
                  done={`${identity} is no longer a host.`}
                  run={() => request(routes({ identity }).delete()).then(onChanged)}
                >
                  They leave the room and the chat immediately. Their messages remain.
                </ConfirmButton>
              ),
          },
        ]}
      />
      {adding && <AddHost streamId={streamId} onAdded={onChanged} onClose={() => setAdding(false)} />}
    </section>
  );
}

function AddHost({ streamId, onAdded, onClose }: { streamId: string; onAdded: () => void; onClose: () => void }) {
  const { at } = useProject();
  const [identity, setIdentity] = useState("");
  const form = useSubmit(async () => {
    await request(at["live-streams"]({ streamId }).hosts.post({ identity }));
    onAdded();
    onClose();
  });
  return (
    <FormDialog title="Add a co-host" action="Add" form={form} onClose={onClose}>
      <Field
        label="Identity"
        hint="The user's id in your backend, which mints their credentials."
        error={form.problem("identity")}
      >
        <TextInput required maxLength={128} value={identity} onValue={setIdentity} />
      </Field>
    </FormDialog>
  );
}

type ViewersProps = { streamId: string; roomId: string; hosts: Host[] };

/** The participants who are not hosts. */
export function Viewers({ streamId, roomId, hosts }: ViewersProps) {
  const { at } = useProject();
  const room = usePolling(() => request(at.rooms({ roomId }).get()), [roomId]);
  const hosting = new Set(hosts.map(({ identity }) => identity));
  return (
    <section class="stack">
      <h2>Viewers</h2>
      <Loaded
        live={room}
        isEmpty={({ participants }) => participants.every(({ identity }) => hosting.has(identity))}
        empty="There are no viewers."
      >
        {({ participants }) => (
          <Table
            label="Viewers"
            rows={participants.filter(({ identity }) => !hosting.has(identity))}
            id={({ identity }) => identity}
            columns={[
              { title: "Identity", cell: ({ identity }) => identity },
              { title: "State", cell: ({ state }) => <Badge>{state}</Badge> },
              { title: "Quality", cell: ({ quality }) => quality && <Badge>{quality}</Badge>, wide: true },
              { title: "Since", cell: ({ joinedAt }) => <Ago at={joinedAt} />, wide: true },
              {
                title: "Actions",
                actions: true,
                cell: ({ identity }) =>
                  may("streams:manage") && (
                    <ConfirmButton
                      button="Remove"
                      label={`Remove ${identity}`}
                      title={`Remove ${identity}?`}
                      action="Remove"
                      done={`${identity} was removed.`}
                      run={() =>
                        request(at["live-streams"]({ streamId }).viewers({ identity }).delete()).then(room.reload)
                      }
                    >
                      They are disconnected and barred from this stream and its chat.
                    </ConfirmButton>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
    </section>
  );
}
