import { useState } from "preact/hooks";
import { ask, askPage } from "../api.ts";
import { useList } from "../live.ts";
import { CodeBlock } from "../parts/code.tsx";
import { ConfirmButton } from "../parts/confirm.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Field } from "../parts/field.tsx";
import { FormDialog, TextInput, useSubmit } from "../parts/form.tsx";
import { List } from "../parts/list.tsx";
import { ShownOnce } from "../parts/shown-once.tsx";
import { Badge, PageHead, words } from "../parts/states.tsx";
import { Ago } from "../parts/time.tsx";
import { attempt } from "../parts/toast.tsx";
import { may, useProject } from "../project.ts";

export function ApiKeys() {
  const { at, environment, projectId } = useProject();
  const keysOf = at["api-keys"];
  const keys = useList((page) => askPage(keysOf.get({ query: { ...page, environment } })), [projectId, environment]);
  const [creating, setCreating] = useState(false);
  const [shown, setShown] = useState<Signing | null>(null);
  return (
    <>
      <PageHead title="API keys">
        {may("api-keys:manage") && (
          <button type="button" class="button primary" onClick={() => setCreating(true)}>
            Create a key
          </button>
        )}
      </PageHead>
      <List
        label="API keys"
        live={keys}
        id={({ id }) => id}
        search={({ name, publicId }) => `${name} ${publicId}`}
        empty={`No keys for ${words(environment)} yet. Your backend needs one.`}
        columns={[
          { title: "Name", cell: ({ name }) => name },
          {
            title: "Key",
            cell: ({ publicId, environment: of }) => (
              <code>{`svk_${of === "PRODUCTION" ? "prod" : "dev"}_${publicId}.…`}</code>
            ),
            wide: true,
          },
          { title: "Status", cell: ({ status }) => <Badge>{status}</Badge> },
          { title: "Last used", cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} /> },
          { title: "Created", cell: ({ createdAt }) => <Ago at={createdAt} />, wide: true },
          {
            title: "Actions",
            actions: true,
            cell: ({ id, name, status }) =>
              status === "ACTIVE" &&
              may("api-keys:manage") && (
                <>
                  <button
                    type="button"
                    class="button"
                    aria-label={`LiveKit secret of ${name}`}
                    onClick={() =>
                      void attempt(async () => setShown(await ask(keysOf({ keyId: id })["signing-secret"].get())))
                    }
                  >
                    LiveKit secret
                  </button>
                  <ConfirmButton
                    button="Revoke"
                    label={`Revoke ${name}`}
                    title="Revoke this key?"
                    action="Revoke"
                    done="The key was revoked."
                    run={() => ask(keysOf({ keyId: id }).delete()).then(keys.reload)}
                  >
                    Every request with {name} is refused from now on. A key that is revoked cannot be used again.
                  </ConfirmButton>
                </>
              ),
          },
        ]}
      />
      {creating && <CreateKey onClose={() => setCreating(false)} onCreated={keys.reload} />}
      {shown && <SigningSecret {...shown} onClose={() => setShown(null)} />}
    </>
  );
}

function CreateKey({ onClose, onCreated }: { onClose: () => void; onCreated: () => void }) {
  const { at, environment } = useProject();
  const [name, setName] = useState("");
  const [key, setKey] = useState<string | null>(null);
  const form = useSubmit(async () => {
    setKey((await ask(at["api-keys"].post({ name, environment }))).key);
    onCreated();
  });
  if (key !== null) return <ShownOnce title="Your new key" secret={key} label="API key" onClose={onClose} />;
  return (
    <FormDialog title={`Create a key for ${words(environment)}`} action="Create" form={form} onClose={onClose}>
      <Field label="Name" hint="Who or what uses it." error={form.problem("name")}>
        <TextInput required maxLength={80} value={name} onValue={setName} />
      </Field>
    </FormDialog>
  );
}

type Signing = { apiKey: string; apiSecret: string };

/** What a backend signs tokens with for LiveKit's SDKs. Derived, so it can be shown again; each time is on the audit log. */
function SigningSecret({ apiKey, apiSecret, onClose }: Signing & { onClose: () => void }) {
  const url = location.origin.replace(/^http/, "ws");
  return (
    <Dialog title="Settings for LiveKit's SDKs" onClose={onClose}>
      <div class="stack">
        <p>Your backend signs tokens with these. Keep the secret on your server, never in a page.</p>
        <CodeBlock
          label="Settings"
          text={`LIVEKIT_URL=${url}\nLIVEKIT_API_KEY=${apiKey}\nLIVEKIT_API_SECRET=${apiSecret}`}
        />
        <p>
          It is on the audit log that they were shown. <a href="/docs/livekit">What works with LiveKit's SDKs</a>
        </p>
      </div>
    </Dialog>
  );
}
