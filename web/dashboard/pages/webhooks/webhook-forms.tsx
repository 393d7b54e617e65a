import { useState } from "preact/hooks";
import { WEBHOOK_EVENT_TYPES, type WebhookEventType } from "../../../../src/protocol/webhook-events.ts";
import { request } from "../../api.ts";
import { Field } from "../../parts/field.tsx";
import { Check, FormDialog, TextInput, useSubmit } from "../../parts/form.tsx";
import { localInput } from "../../parts/time.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { useProject } from "../../project.ts";

type EditProps = {
  webhook: { id: string; url: string; description: string | null; events: string[] };
  onSaved: () => void;
  onClose: () => void;
};

export function EditWebhook({ webhook, onSaved, onClose }: EditProps) {
  const { at } = useProject();
  const [url, setUrl] = useState(webhook.url);
  const [description, setDescription] = useState(webhook.description ?? "");
  const [events, setEvents] = useState(webhook.events as WebhookEventType[]);
  const form = useSubmit(async () => {
    const change = { url, events, description: description === "" ? null : description };
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
      <EventFilter events={events} onEvents={setEvents} />
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

type EventFilterProps = { events: WebhookEventType[]; onEvents: (events: WebhookEventType[]) => void };

/** The events that an endpoint receives; none selected means all. */
export function EventFilter({ events, onEvents }: EventFilterProps) {
  return (
    <details>
      <summary>{events.length === 0 ? "All events, including new ones" : `${events.length} events`}</summary>
      <fieldset class="checks">
        <legend class="hidden">Events</legend>
        {WEBHOOK_EVENT_TYPES.map((type) => (
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
