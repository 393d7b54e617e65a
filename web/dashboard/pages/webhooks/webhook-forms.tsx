import { useState } from "preact/hooks";
import type { WebhookFormat } from "../../../../src/protocol/enums.ts";
import {
  EVENT_TYPES_OF,
  type LivekitEventType,
  type WebhookEventType,
} from "../../../../src/protocol/webhook-events.ts";
import { request, requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { Field } from "../../parts/field.tsx";
import { Check, FormDialog, Select, type Submit, TextInput, useSubmit } from "../../parts/form.tsx";
import { localInput } from "../../parts/time.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { useProject } from "../../project.ts";

type EditProps = {
  webhook: {
    id: string;
    url: string;
    description: string | null;
    events: string[];
    format: WebhookFormat;
    apiKeyId: string | null;
  };
  onSaved: () => void;
  onClose: () => void;
};

export function EditWebhook({ webhook, onSaved, onClose }: EditProps) {
  const { at } = useProject();
  const [url, setUrl] = useState(webhook.url);
  const [description, setDescription] = useState(webhook.description ?? "");
  const [events, setEvents] = useState(webhook.events as EventType[]);
  const [apiKeyId, setApiKeyId] = useState(webhook.apiKeyId ?? "");
  const form = useSubmit(async () => {
    const { format } = webhook;
    const key = format === "livekit" ? { apiKeyId } : {};
    const change = { url, events, description: description === "" ? null : description, ...key };
    await request(at.webhooks({ webhookId: webhook.id }).patch(change));
    toastDone("Saved.");
    onSaved();
    onClose();
  });
  return (
    <FormDialog title="Edit the endpoint" action="Save" form={form} onClose={onClose}>
      <Field label="Address" error={form.problem("url")}>
        <TextInput type="url" required maxLength={2048} value={url} onValue={setUrl} />
      </Field>
      <Field label="Description" error={form.problem("description")}>
        <TextInput maxLength={500} value={description} onValue={setDescription} />
      </Field>
      {webhook.format === "livekit" && <SigningKey value={apiKeyId} onValue={setApiKeyId} form={form} />}
      <EventFilter format={webhook.format} events={events} onEvents={setEvents} />
    </FormDialog>
  );
}

const DAY_MS = 86_400_000;

export function Recover({ webhookId, onClose }: { webhookId: string; onClose: () => void }) {
  const { at } = useProject();
  const [since, setSince] = useState(() => localInput(new Date(Date.now() - DAY_MS)));
  const [until, setUntil] = useState("");
  const form = useSubmit(async () => {
    const body = {
      since: new Date(since).toISOString(),
      ...(until !== "" && { until: new Date(until).toISOString() }),
    };
    const { recovered } = await request(at.webhooks({ webhookId }).recover.post(body));
    toastDone(recovered === 1 ? "1 delivery is sent again." : `${recovered} deliveries are sent again.`);
    onClose();
  });
  return (
    <FormDialog title="Recover missed events" action="Recover" form={form} onClose={onClose}>
      <p>Events that failed or occurred while the endpoint was disabled are sent again with the same ids.</p>
      <Field label="Since" error={form.problem("since")}>
        <TextInput type="datetime-local" required value={since} onValue={setSince} />
      </Field>
      <Field label="Until" hint="Until now, if left empty." error={form.problem("until")}>
        <TextInput type="datetime-local" value={until} onValue={setUntil} />
      </Field>
    </FormDialog>
  );
}

type SigningKeyProps = { value: string; onValue: (apiKeyId: string) => void; form: Submit };

/** The API key with whose LiveKit secret the receiver verifies the events. */
export function SigningKey({ value, onValue, form }: SigningKeyProps) {
  const { at, environment, projectId } = useProject();
  const keys = useList(
    (page) => requestPage(at["api-keys"].get({ query: { ...page, environment } })),
    [projectId, environment],
  );
  const active = (keys.data ?? []).filter(({ status }) => status === "ACTIVE");
  return (
    <Field label="API key" hint="Its LiveKit secret signs the events." error={form.problem("apiKeyId")}>
      <Select
        value={value}
        onValue={onValue}
        options={[{ value: "", label: "Choose a key" }, ...active.map(({ id, name }) => ({ value: id, label: name }))]}
      />
    </Field>
  );
}

export type EventType = WebhookEventType | LivekitEventType;

type EventFilterProps = { format: WebhookFormat; events: EventType[]; onEvents: (events: EventType[]) => void };

/** The events that an endpoint receives; none selected means all. */
export function EventFilter({ format, events, onEvents }: EventFilterProps) {
  return (
    <details>
      <summary>{events.length === 0 ? "All events, including new ones" : `${events.length} events`}</summary>
      <fieldset class="checks">
        <legend class="hidden">Events</legend>
        {EVENT_TYPES_OF[format].map((type) => (
          <Check
            key={type}
            checked={events.includes(type)}
            onChecked={(on) => onEvents(on ? [...events, type] : events.filter((one) => one !== type))}
          >
            {type}
          </Check>
        ))}
      </fieldset>
    </details>
  );
}
