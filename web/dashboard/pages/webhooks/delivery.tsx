import { useRoute } from "preact-iso";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Id } from "../../parts/id.tsx";
import { Details, Loaded, PageHead } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";

const EVERY_MS = 3_000;

/** One delivery: its attempts and its body. */
export function OneDelivery() {
  const { webhookId = "", deliveryId = "" } = useRoute().params;
  const { at, path } = useProject();
  const routes = at.webhooks({ webhookId }).deliveries({ deliveryId });
  const delivery = usePolling(() => request(routes.get()), [deliveryId], EVERY_MS);
  return (
    <Loaded live={delivery}>
      {(shown) => (
        <>
          <PageHead title={shown.eventType} badge={shown.status}>
            <a class="button" href={path(`webhooks/${webhookId}`)}>
              Endpoint
            </a>
            {may("webhooks:manage") && (
              <Action
                tone="primary"
                done="Sent again."
                run={() => request(routes.redeliver.post()).then(delivery.reload)}
              >
                Redeliver
              </Action>
            )}
          </PageHead>
          <Details
            items={[
              [
                "Event id",
                <Id key="event" label="event id">
                  {shown.eventId}
                </Id>,
              ],
              ["Created", <Ago key="made" at={shown.createdAt} />],
              ["Delivered", shown.deliveredAt && <Ago key="delivered" at={shown.deliveredAt} />],
              ["Next attempt", shown.nextAttemptAt && <Ago key="next" at={shown.nextAttemptAt} />],
            ]}
          />
          <section class="stack">
            <h2>Attempts</h2>
            {shown.attempts.length === 0 ? (
              <div class="empty">Not attempted yet.</div>
            ) : (
              <Table
                label="Attempts"
                rows={shown.attempts}
                id={({ at: time }) => time}
                columns={[
                  { title: "When", cell: ({ at: time }) => <Ago at={time} /> },
                  { title: "Response", cell: ({ statusCode }) => statusCode ?? "none", number: true },
                  { title: "Took", cell: ({ durationMs }) => durationText(durationMs), number: true },
                  { title: "Error", prose: true, cell: ({ error }) => error ?? "–" },
                ]}
              />
            )}
          </section>
          <section class="stack">
            <h2>Body</h2>
            <CodeBlock text={readable(shown.body)} label="body" />
          </section>
        </>
      )}
    </Loaded>
  );
}

function readable(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
