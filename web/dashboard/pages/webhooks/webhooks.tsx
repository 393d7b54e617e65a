import { useState } from "preact/hooks";
import type { WebhookFormat } from "../../../../src/protocol/enums.ts";
import { request, requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { Field } from "../../parts/field.tsx";
import { FormDialog, Select, TextInput, useSubmit } from "../../parts/form.tsx";
import { ShownOnce } from "../../parts/frame/shown-once.tsx";
import { List } from "../../parts/list.tsx";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { may, useProject } from "../../project.ts";
import { EventFilter, type EventType, SigningKey } from "./webhook-forms.tsx";

export function Webhooks() {
  const { at, environment, projectId, path } = useProject();
  const webhooks = useList(
    (page) => requestPage(at.webhooks.get({ query: { ...page, environment } })),
    [projectId, environment],
  );
  const [creating, setCreating] = useState(false);
  return (
    <>
      <PageHead title="Webhooks">
        {may("webhooks:manage") && (
          <button type="button" class="button primary" onClick={() => setCreating(true)}>
            Add an endpoint
          </button>
        )}
      </PageHead>
      <List
        label="webhooks"
        live={webhooks}
        id={({ id }) => id}
        search={({ url, description }) => `${url} ${description ?? ""}`}
        empty="No endpoints yet. Add one to notify your backend of events."
        columns={[
          { title: "Address", cell: ({ id, url }) => <a href={path(`webhooks/${id}`)}>{url}</a> },
          { title: "Status", cell: ({ status }) => <Badge>{status}</Badge> },
          { title: "Events", cell: ({ events }) => (events.length === 0 ? "all" : events.length), wide: true },
          {
            title: "Consecutive failures",
            cell: ({ consecutiveFailures: count }) => (count === 0 ? "0" : <b class="problem">{count}</b>),
            number: true,
          },
          { title: "Last success", cell: ({ lastDeliveryAt }) => <Ago at={lastDeliveryAt} />, wide: true },
        ]}
      />
      {creating && <CreateWebhook onClose={() => setCreating(false)} onCreated={webhooks.reload} />}
    </>
  );
}

function CreateWebhook({ onClose, onCreated }: { onClose: () => void; onCreated: () => void }) {
  const { at, environment } = useProject();
  const [url, setUrl] = useState("");
  const [description, setDescription] = useState("");
  const [events, setEvents] = useState<EventType[]>([]);
  const [format, setFormat] = useState<WebhookFormat>("stoa");
  const [apiKeyId, setApiKeyId] = useState("");
  const [secret, setSecret] = useState<string | null>(null);
  const form = useSubmit(async () => {
    const key = format === "livekit" ? { apiKeyId } : {};
    const body = { url, environment, format, events, description: description === "" ? null : description, ...key };
    const created = await request(at.webhooks.post(body));
    onCreated();
    // The events of the others are signed with the secret of the API key.
    if (format === "stoa") return setSecret(created.secret);
    toastDone("Added. Its receiver verifies events with the API key and its LiveKit secret.");
    onClose();
  });
  if (secret !== null) {
    return <ShownOnce title="Signing secret" secret={secret} label="signing secret" onClose={onClose} />;
  }
  return (
    <FormDialog title={`Add an endpoint for ${humanize(environment)}`} action="Add" form={form} onClose={onClose}>
      <Field
        label="Address"
        hint={environment === "PRODUCTION" ? "https only." : "https, or http on this machine."}
        error={form.problem("url")}
      >
        <TextInput
          type="url"
          required
          maxLength={2048}
          placeholder="https://example.com/webhooks"
          value={url}
          onValue={setUrl}
        />
      </Field>
      <Field label="Description" error={form.problem("description")}>
        <TextInput maxLength={500} value={description} onValue={setDescription} />
      </Field>
      <Field label="Format" hint="LiveKit's, for backends written for a LiveKit server.">
        <Select
          value={format}
          onValue={(chosen) => {
            setFormat(chosen);
            setEvents([]);
          }}
          options={[
            { value: "stoa", label: "Stoa" },
            { value: "livekit", label: "LiveKit" },
          ]}
        />
      </Field>
      {format === "livekit" && <SigningKey value={apiKeyId} onValue={setApiKeyId} form={form} />}
      <EventFilter format={format} events={events} onEvents={setEvents} />
    </FormDialog>
  );
}
