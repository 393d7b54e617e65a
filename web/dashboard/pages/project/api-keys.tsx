import { useState } from "preact/hooks";
import { request, requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { CodeBlock } from "../../parts/code.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { FormDialog, TextInput, useSubmit } from "../../parts/form.tsx";
import { ShownOnce } from "../../parts/frame/shown-once.tsx";
import { List } from "../../parts/list.tsx";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { attempt } from "../../parts/toast.tsx";
import { may, useProject } from "../../project.ts";

export function ApiKeys() {
  const { at, environment, projectId } = useProject();
  const keysOf = at["api-keys"];
  const keys = useList(
    (page) => requestPage(keysOf.get({ query: { ...page, environment } })),
    [projectId, environment],
  );
  const [creating, setCreating] = useState(false);
  const [signing, setSigning] = useState<Signing | null>(null);
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
        empty={`No keys for ${humanize(environment)} yet. Your backend needs one.`}
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
            cell: ({ id, name, publicId, status }) =>
              status === "ACTIVE" &&
              may("api-keys:manage") && (
                <>
                  <button
                    type="button"
                    class="button"
                    aria-label={`LiveKit secret of ${name}`}
                    onClick={() => setSigning({ keyId: id, publicId })}
                  >
                    LiveKit secret
                  </button>
                  <ConfirmButton
                    button="Revoke"
                    label={`Revoke ${name}`}
                    title="Revoke this key?"
                    action="Revoke"
                    done="The key was revoked."
                    run={() => request(keysOf({ keyId: id }).delete()).then(keys.reload)}
                  >
                    Every request with {name} is refused from now on. A key that is revoked cannot be used again.
                  </ConfirmButton>
                </>
              ),
          },
        ]}
      />
      {creating && <CreateKey onClose={() => setCreating(false)} onCreated={keys.reload} />}
      {signing && <SigningSecret {...signing} onClose={() => setSigning(null)} />}
    </>
  );
}

function CreateKey({ onClose, onCreated }: { onClose: () => void; onCreated: () => void }) {
  const { at, environment } = useProject();
  const [name, setName] = useState("");
  const [key, setKey] = useState<string | null>(null);
  const form = useSubmit(async () => {
    setKey((await request(at["api-keys"].post({ name, environment }))).key);
    onCreated();
  });
  if (key !== null) return <ShownOnce title="Your new key" secret={key} label="API key" onClose={onClose} />;
  return (
    <FormDialog title={`Create a key for ${humanize(environment)}`} action="Create" form={form} onClose={onClose}>
      <Field label="Name" hint="What the key is used for." error={form.problem("name")}>
        <TextInput required maxLength={80} value={name} onValue={setName} />
      </Field>
    </FormDialog>
  );
}

type Signing = { keyId: string; publicId: string };

/**
 * The secret with which a backend signs tokens for LiveKit's SDKs. It is derived, so it can be shown again. It needs another
 * click, because others may see the screen, and each time is recorded in the audit log.
 */
function SigningSecret({ keyId, publicId, onClose }: Signing & { onClose: () => void }) {
  const { at } = useProject();
  const [secret, setSecret] = useState<string | null>(null);
  const url = location.origin.replace(/^http/, "ws");
  const settings = `LIVEKIT_URL=${url}\nLIVEKIT_API_KEY=${publicId}\nLIVEKIT_API_SECRET=`;
  const show = async () => setSecret((await request(at["api-keys"]({ keyId })["signing-secret"].get())).apiSecret);
  return (
    <Dialog title="Settings for LiveKit's SDKs" onClose={onClose}>
      <div class="stack">
        <p>Your backend signs tokens with these. Keep the secret on your server, never in a page.</p>
        {secret === null ? (
          <>
            <div class="code">
              <pre>
                <code>{`${settings}${"•".repeat(16)}`}</code>
              </pre>
            </div>
            <div class="actions">
              <button type="button" class="button primary" onClick={() => void attempt(show)}>
                Show the secret
              </button>
            </div>
          </>
        ) : (
          <CodeBlock label="Settings" text={`${settings}${secret}`} />
        )}
        <p>
          The audit log records who has viewed it. <a href="/docs/livekit">What works with LiveKit's SDKs</a>
        </p>
      </div>
    </Dialog>
  );
}
