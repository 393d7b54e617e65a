import { useState } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import { DELIVERY_STATUSES, type DeliveryStatus } from "../../../../src/protocol/enums.ts";
import { useFilter } from "../../address.ts";
import { request, requestPage } from "../../api.ts";
import { useList, usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { filterOptions, Select } from "../../parts/form.tsx";
import { ShownOnce } from "../../parts/frame/shown-once.tsx";
import { Id } from "../../parts/id.tsx";
import { List } from "../../parts/list.tsx";
import { Badge, Details, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";
import { EditWebhook, Recover } from "./webhook-forms.tsx";

const EVERY_MS = 3_000;

/** One endpoint: its state, its deliveries and its settings. */
export function OneWebhook() {
  const { webhookId = "" } = useRoute().params;
  const { at, path } = useProject();
  const { route } = useLocation();
  const routes = at.webhooks({ webhookId });
  const webhook = usePolling(() => request(routes.get()), [webhookId], EVERY_MS);
  const [open, setOpen] = useState<"edit" | "recover" | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const setStatus = (status: "ACTIVE" | "DISABLED") => request(routes.patch({ status })).then(webhook.reload);
  return (
    <Loaded live={webhook}>
      {(shown) => (
        <>
          <PageHead title={shown.url} badge={shown.status}>
            {may("webhooks:manage") && (
              <>
                <Action done="A test event is on its way." run={() => request(routes.test.post()).then(webhook.reload)}>
                  Send a test
                </Action>
                <button type="button" class="button" onClick={() => setOpen("edit")}>
                  Edit
                </button>
                <button type="button" class="button" onClick={() => setOpen("recover")}>
                  Recover
                </button>
                {shown.format === "stoa" && (
                  <Action run={async () => setSecret((await request(routes["rotate-secret"].post({}))).secret)}>
                    Rotate the secret
                  </Action>
                )}
                {shown.status === "ACTIVE" ? (
                  <Action done="The endpoint is disabled." run={() => setStatus("DISABLED")}>
                    Disable
                  </Action>
                ) : (
                  <Action tone="primary" done="The endpoint is enabled." run={() => setStatus("ACTIVE")}>
                    Enable
                  </Action>
                )}
                <ConfirmButton
                  title="Delete this endpoint?"
                  action="Delete"
                  done="The endpoint was deleted."
                  run={async () => {
                    await request(routes.delete());
                    route(path("webhooks"));
                  }}
                >
                  The endpoint and its delivery history are deleted permanently.
                </ConfirmButton>
              </>
            )}
          </PageHead>
          {shown.disabledReason !== null && <p class="note warn">{WHY[shown.disabledReason]}</p>}
          <Details
            items={[
              ["Description", shown.description],
              ["Environment", humanize(shown.environment)],
              ["Format", shown.format === "livekit" ? "LiveKit" : "Stoa"],
              ["Events", shown.events.length === 0 ? "all" : shown.events.join(", ")],
              ["Consecutive failures", shown.consecutiveFailures],
              ["Last success", <Ago key="last" at={shown.lastDeliveryAt} />],
              ["Id", <Id key="id">{shown.id}</Id>],
            ]}
          />
          <h2>Deliveries</h2>
          <Deliveries webhookId={webhookId} />
          {open === "edit" && <EditWebhook webhook={shown} onSaved={webhook.reload} onClose={() => setOpen(null)} />}
          {open === "recover" && <Recover webhookId={webhookId} onClose={() => setOpen(null)} />}
          {secret !== null && (
            <ShownOnce
              title="New signing secret"
              secret={secret}
              label="signing secret"
              onClose={() => setSecret(null)}
            />
          )}
        </>
      )}
    </Loaded>
  );
}

const WHY = {
  manual: "Disabled manually. Missed events can be sent later with “Recover”.",
  consecutive_failures: "Disabled after too many failures in a row. Fix the endpoint, enable it, then recover.",
  gone: "Disabled because the endpoint responded with 410 Gone.",
};

function Deliveries({ webhookId }: { webhookId: string }) {
  const { at, path } = useProject();
  const [status, setStatus] = useFilter<DeliveryStatus>("status");
  const routes = at.webhooks({ webhookId }).deliveries;
  const deliveries = useList(
    (page) => requestPage(routes.get({ query: { ...page, ...(status !== "" && { status }) } })),
    [webhookId, status],
    EVERY_MS,
  );
  return (
    <List
      label="deliveries"
      live={deliveries}
      id={({ id }) => id}
      search={({ eventType, eventId, lastError }) => `${eventType} ${eventId} ${lastError ?? ""}`}
      filters={
        <Select
          label="Status"
          value={status}
          onValue={setStatus}
          options={filterOptions("Any status", DELIVERY_STATUSES, humanize)}
        />
      }
      empty="No deliveries yet."
      columns={[
        {
          title: "Event",
          cell: ({ id, eventType }) =>
            may("webhooks:manage") ? (
              <a href={path(`webhooks/${webhookId}/deliveries/${id}`)}>{eventType}</a>
            ) : (
              eventType
            ),
        },
        { title: "Status", cell: (one) => <Badge>{one.status}</Badge> },
        { title: "Attempts", cell: ({ attempts }) => <Attempts attempts={attempts} /> },
        {
          title: "Last error",
          prose: true,
          cell: ({ lastError }) => <span class="small">{lastError}</span>,
          wide: true,
        },
        { title: "Created", cell: ({ createdAt }) => <Ago at={createdAt} />, wide: true },
        {
          title: "Actions",
          actions: true,
          cell: ({ id, eventType }) =>
            may("webhooks:manage") && (
              <Action
                label={`Redeliver ${eventType}`}
                done="Sent again."
                run={() => request(routes({ deliveryId: id }).redeliver.post()).then(deliveries.reload)}
              >
                Redeliver
              </Action>
            ),
        },
      ]}
    />
  );
}

type Attempt = { at: string; statusCode: number | null; durationMs: number; error: string | null };

/** One mark for each attempt: green if it succeeded. */
function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  const delivered = attempts.filter(({ error }) => error === null).length;
  return (
    <span class="attempts" role="img" aria-label={`${attempts.length} attempts, ${delivered} delivered`}>
      {attempts.map(({ at, statusCode, durationMs, error }) => (
        <span
          key={at}
          class={error === null ? "good" : "bad"}
          title={`${statusCode ?? "no response"} after ${durationText(durationMs)}${error === null ? "" : `: ${error}`}`}
        />
      ))}
    </span>
  );
}
