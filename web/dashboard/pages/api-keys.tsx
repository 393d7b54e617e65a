import { useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { ENVIRONMENTS } from "../../../src/protocol/enums.ts";
import { api, ask } from "../api.ts";
import { useLive } from "../live.ts";
import { CodeBlock } from "../parts/code.tsx";
import { Confirm, Dialog } from "../parts/dialog.tsx";
import { Field } from "../parts/field.tsx";
import { FormProblem, Select, TextInput, useSubmit } from "../parts/form.tsx";
import { Badge, PageHead, Shown } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";
import { Ago } from "../parts/time.tsx";
import { environment } from "../place.ts";

export function ApiKeys() {
  const { projectId = "" } = useRoute().params;
  const keysOf = api.v1.projects({ projectId })["api-keys"];
  const keys = useLive(() => ask(keysOf.get({ query: {} })), [projectId]);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<{ id: string; name: string } | null>(null);
  return (
    <>
      <PageHead title="API keys">
        <button type="button" class="button primary" onClick={() => setCreating(true)}>
          Create a key
        </button>
      </PageHead>
      <Shown live={keys} isEmpty={(list) => list.length === 0} empty="No keys yet. Your backend needs one.">
        {(list) => (
          <Table
            label="API keys"
            rows={list}
            id={({ id }) => id}
            columns={[
              { title: "Name", cell: ({ name }) => name },
              { title: "Key", cell: ({ publicId }) => <code>{publicId}</code>, wide: true },
              { title: "Environment", cell: (key) => key.environment },
              { title: "Status", cell: ({ status }) => <Badge>{status}</Badge> },
              { title: "Last used", cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} />, wide: true },
              {
                title: "",
                cell: ({ id, name, status }) =>
                  status === "ACTIVE" && (
                    <button type="button" class="button danger" onClick={() => setRevoking({ id, name })}>
                      Revoke
                    </button>
                  ),
              },
            ]}
          />
        )}
      </Shown>
      {creating && <CreateKey projectId={projectId} onClose={() => setCreating(false)} onCreated={keys.reload} />}
      {revoking && (
        <Confirm
          title="Revoke this key?"
          action="Revoke"
          done="The key was revoked."
          run={() => ask(keysOf({ keyId: revoking.id }).delete()).then(keys.reload)}
          onClose={() => setRevoking(null)}
        >
          Every request with {revoking.name} is refused from now on.
        </Confirm>
      )}
    </>
  );
}

type CreateKeyProps = { projectId: string; onClose: () => void; onCreated: () => void };

function CreateKey({ projectId, onClose, onCreated }: CreateKeyProps) {
  const [name, setName] = useState("");
  const [chosen, setChosen] = useState(environment.value);
  const [key, setKey] = useState<string | null>(null);
  const form = useSubmit(async () => {
    const body = { name, environment: chosen };
    setKey((await ask(api.v1.projects({ projectId })["api-keys"].post(body))).key ?? null);
    onCreated();
  });
  if (key !== null) {
    return (
      <Dialog title="Your new key" onClose={onClose}>
        <div class="stack">
          <p>This is the only time it is shown. Keep it on your server, never in a page.</p>
          <CodeBlock text={key} label="API key" />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Create a key" onClose={onClose}>
      <form class="stack" onSubmit={form.onSubmit}>
        <Field label="Name" error={form.problem("name")}>
          <TextInput required maxLength={80} value={name} onValue={setName} />
        </Field>
        <Field label="Environment">
          <Select value={chosen} onValue={setChosen} options={ENVIRONMENTS} />
        </Field>
        <FormProblem failure={form.failure} />
        <div class="actions">
          <button type="submit" class="button primary" disabled={form.busy}>
            Create
          </button>
        </div>
      </form>
    </Dialog>
  );
}
