import { useState } from "preact/hooks";
import type { WebhookEventType } from "../../../../src/protocol/webhook-events.ts";
import { ask } from "../../api.ts";
import { useProject } from "../../project.ts";
import { Field } from "../field.tsx";
import { FormDialog, TextInput, useSubmit } from "../form.tsx";
import { localInput } from "../time.tsx";
import { toastDone } from "../toast.tsx";
import { EventFilter } from "./event-filter.tsx";

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
    await ask(at.webhooks({ webhookId: webhook.id }).patch(change));
    toastDone("Saved.");
    onSaved();
    onClose();
  });
  return (
    <FormDialog title="Edit the endpoint" action="Save" form={form} onClose={onClose}>
      <Field label="Address" error={form.problem("url")}>
        <TextInput type="url" required maxLength={2048} value={url} onValue={setUrl} />
      </Field>
      <Field label="Note" error={form.problem("description")}>
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
    const { recovered } = await ask(at.webhooks({ webhookId }).recover.post(body));
    toastDone(recovered === 1 ? "1 delivery is sent again." : `${recovered} deliveries are sent again.`);
    onClose();
  });
  return (
    <FormDialog title="Send again what was missed" action="Recover" form={form} onClose={onClose}>
      <p>What failed, or happened while the endpoint was disabled, is sent again with the same event ids.</p>
      <Field label="Since" error={form.problem("since")}>
        <TextInput type="datetime-local" required value={since} onValue={setSince} />
      </Field>
      <Field label="Until" hint="Until now, if left empty." error={form.problem("until")}>
        <TextInput type="datetime-local" value={until} onValue={setUntil} />
      </Field>
    </FormDialog>
  );
}
